// ---- how good it is: tables and the matrix of dependence -------------------------------------------------------------------

const four = (error) => (error === null || error === undefined ? "" : error < 0.00005 ? "0" : error.toFixed(4));

const graded = (grade) => make("span", { class: `grade ${grade}` }, grade);

/** Fill a table: titles, then rows of texts or elements. A title in a list is that of numbers; what has none is left out where there is little room. */
function tabulate(table, titles, rows) {
  const kinds = titles.map((title) => (Array.isArray(title) ? "number" : title === "" ? "bar-cell" : "name"));
  const head = make("tr", {}, ...titles.map((title, i) => make("th", { scope: "col", class: kinds[i] }, ...[title].flat())));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, i) => make("td", { class: cell === null ? `none ${kinds[i]}` : kinds[i] }, ...[cell ?? "missing"].flat()))));
  table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
}

/** Hide all but the first rows of a table behind a button. */
function shorten(table, button, rows) {
  const rest = [...table.querySelectorAll("tbody tr")].slice(rows);
  const show = (all) => { for (const row of rest) row.hidden = !all; button.textContent = all ? `The worst ${rows} only` : `All ${rest.length + rows}`; button.setAttribute("aria-expanded", all); };
  button.hidden = rest.length === 0;
  button.addEventListener("click", () => show(rest[0].hidden));
  show(false);
}

/** A bar as long as an error is beside the worst one. */
function meter(error, worst) {
  const fill = make("i");
  fill.style.width = `${worst ? 100 * error / worst : 0}%`;
  return make("span", { class: "meter", "aria-hidden": "true" }, fill);
}

function drawQuality(quality) {
  byId("quality").hidden = !quality || !(quality.answers.length || quality.columns.length);
  if (byId("quality").hidden) return;
  const { columns, pairs, measured } = quality, expected = columns.some((c) => c.expected !== null);
  byId("meaning").replaceChildren(...quality.meaning.map((text) => make("p", { class: "meaning" }, text)));
  tabulate(byId("answers"), ["Question", ["Error"], "Answers are", "Where"], quality.answers.map((a) =>
    [a.question, a.question.startsWith("Small") ? "" : four(a.error), graded(a.grade), a.detail]));
  drawCut(quality.cut ?? []);
  byId("worst-columns").hidden = columns.length === 0;
  const longest = Math.max(...columns.map((c) => c.error ?? c.expected), 1e-9);
  tabulate(byId("worst-columns").querySelector("table"), ["Column", ...(measured ? [["Error"]] : []), ...(expected ? [["Expected"]] : []), "", "Answers are", ...(measured ? [["W1"]] : [])],
    columns.map((c) => [breakable(c.name), ...(measured ? [four(c.error)] : []), ...(expected ? [four(c.expected)] : []), meter(c.error ?? c.expected, longest), graded(c.grade), ...(measured ? [four(c.w1)] : [])]));
  byId("worst-pairs").hidden = pairs.length === 0;
  tabulate(byId("worst-pairs").querySelector("table"), ["Pair", ["Error"], "", "Answers are"], pairs.map((p) =>
    [[...breakable(p.x), " × ", ...breakable(p.y)], four(p.error), meter(p.error, pairs[0].error), graded(p.grade)]));
  const rows = Math.min(10, Math.max(columns.length, 5));
  for (const id of ["worst-columns", "worst-pairs"]) shorten(byId(id).querySelector("table"), byId(id).querySelector("button"), rows);
  byId("worst-pairs").querySelector(".note").textContent = quality.pairs_total > pairs.length ? `The worst ${pairs.length} of ${whole(quality.pairs_total)} pairs.` : "";
  const w1 = !quality.w1 ? "" : quality.w1.reason ? ` W1 of the whole table is left out: ${quality.w1.reason}.`
    : ` W1 of the whole table: ${four(quality.w1.value)}${quality.w1.error ? ` ± ${four(quality.w1.error)}` : ""}.`;
  byId("quality-note").textContent = `Reliable: an error of at most 0.02; rough: at most 0.10. ${measured
    ? "Measured against the real records that the last release is about." : "Expected, from public numbers on the card of the last release; nothing was compared with the data."}${w1}`;
}

/** Which bounds of the schema cut real values: the first thing to correct. */
function drawCut(cut) {
  const mild = cut.every((c) => c.share < 0.01);
  byId("cut").hidden = cut.length === 0;
  byId("cut").classList.toggle("mild", mild);
  byId("cut").replaceChildren(make("strong", {}, mild ? "Bounds cut a few real values. " : "Bounds cut real values. "), `Such a value counts as the bound in every release, and here. ${cut.map((c) => `${c.name}: ${percent(c.share)}`).join("; ")}. Declare wider bounds if they are known without the data, or null_values if such values mean that there is none.`);
}

function drawSample(sample, real, columns) {
  byId("sample").hidden = !sample || sample.synthetic.length === 0;
  if (byId("sample").hidden) return;
  const host = byId("rows");
  host.className = sample.columns.length > 5 || !sample.real ? "stacked" : "two";
  const titles = columns.map((c) => (c.kind === "number" || c.kind === "integer" ? [c.name] : c.name));
  const shown = (title, rows, kind) => {
    const table = make("table", { class: "sample" });
    tabulate(table, titles, rows);
    host.append(make("figure", { class: "card" }, make("figcaption", {}, make("span", { class: `title ${kind}` }, title)), make("div", { class: "table", tabindex: "0", role: "region", "aria-label": title }, table)));
  };
  shown("Synthetic", sample.synthetic, "");
  if (sample.real) shown(real.public ? "Real" : "Real, not private", sample.real, "real");
  const wide = [...host.querySelectorAll(".table")].some((table) => table.scrollWidth > table.clientWidth);
  byId("sample-note").textContent = `Synthetic rows are drawn from a model of noisy counts: none of them stands for a real row.${sample.real ? " Real rows were picked at random; rows of the two tables have nothing to do with each other." : ""}${wide ? ` ${sample.columns.length} columns: scroll sideways.` : ""}`;
}

/** A square of cells, a row for each column of the table; what is pointed at is read out below. */
class Matrix {
  constructor(host, title, names, values, difference = false) {
    [this.names, this.values, this.difference] = [names, values, difference];
    this.svg = draw("svg", { class: "chart matrix", role: "img", "aria-label": `${title}: dependence of every pair of columns` });
    this.below = make("p", { class: "below" }, make("span"), make("span"));
    host.append(make("figure", { class: "card" }, make("figcaption", {}, make("span", { class: "title" }, title)), this.svg, this.below));
    this.svg.addEventListener("pointermove", (event) => this.read(event));
    this.svg.addEventListener("pointerleave", () => { this.below.firstChild.textContent = ""; });
  }

  show(most) {
    const { svg, names, values } = this, n = names.length, tall = Math.min(26, Math.max(14, Math.floor(300 / n)));
    const { width } = svg.getBoundingClientRect(), mostLeft = width * 0.4;
    const widest = Math.max(...names.map(widthOf)), room = Math.min(widest + 10, mostLeft);
    const named = names.every((name) => widthOf(name) + 6 <= (width - room) / n);  // else rows and columns are numbered
    const rows = named ? names : names.map((name, i) => `${name}\u2002${i + 1}`);
    const left = Math.min(Math.max(...rows.map(widthOf)) + 10, mostLeft), w = (width - left) / n;
    svg.style.height = `${n * tall + 20}px`;
    this.plot = { left, w, tall };
    const palette = colours(), every = [1, 2, 5, 10, 20, 50].find((step) => widthOf(`${n}`) + 4 <= step * w) ?? 100;
    svg.replaceChildren();
    names.forEach((name, i) => {
      if (!named && (i + 1) % every) return;
      const label = named ? name : `${i + 1}`, x = Math.min(left + (i + 0.5) * w, width - widthOf(label) / 2);
      svg.append(draw("text", { x, y: n * tall + 14, "text-anchor": "middle" }, label));
    });
    names.forEach((name, j) => {
      const number = named ? "" : `\u2002${j + 1}`;
      svg.append(draw("text", { x: left - 8, y: j * tall + tall / 2 + 4, "text-anchor": "end" }, fitMiddle(name, left - 10 - widthOf(number)) + number));
      names.forEach((_, i) => {
        const share = Math.min(Math.abs(values[j][i]) / most, 1), place = { x: left + i * w, y: j * tall, width: Math.max(w - 1, 1), height: tall - 1 };
        const shade = palette[Math.round(255 * share)], same = i === j || this.difference;
        svg.append(draw("rect", { ...place, ...(same ? { class: "same" } : { fill: `rgb(${shade.join()})` }) }));
        if (this.difference && i !== j) svg.append(draw("rect", { ...place, class: values[j][i] < 0 ? "less" : "more", "fill-opacity": share.toFixed(3) }));
        if (i === j || w < 44 || tall < 18) return;
        const text = draw("text", { x: left + (i + 0.5) * w, y: j * tall + tall / 2 + 4, "text-anchor": "middle" }, this.written(values[j][i]));
        if (!this.difference) text.style.fill = shade[1] > 140 ? "#14171a" : "#fff";  // green weighs most in how light a colour looks
        else text.classList.add(share > 0.6 ? "on-strong" : "on-weak");
        svg.append(text);
      });
    });
    this.below.lastChild.textContent = `strongest shade: ${this.difference ? "±" : ""}${+most.toPrecision(2)}`;
  }

  written(value) { return `${this.difference && value > 0 ? "+" : ""}${value.toFixed(3)}`; }

  read(event) {
    const box = this.svg.getBoundingClientRect(), { left, w, tall } = this.plot;
    const i = Math.floor((event.clientX - box.left - left) / w), j = Math.floor((event.clientY - box.top) / tall), value = this.values[j]?.[i];
    this.below.firstChild.textContent = i === j || value === undefined ? "" : `${this.names[j]} × ${this.names[i]}: ${this.written(value)}`;
  }
}

/** The matrices of a page, or none if there is one column. */
function buildMatrices(dependence, real) {
  byId("dependence").hidden = !dependence || dependence.names.length < 2;
  if (byId("dependence").hidden) return [];
  const host = byId("matrices"), { names, synthetic, real: beside } = dependence;
  host.classList.toggle("large", names.length > 18);
  const found = beside ? [new Matrix(host, real.public ? "Real" : "Real, not private", names, beside)] : [];
  found.push(new Matrix(host, "Synthetic", names, synthetic));
  if (beside) found.push(new Matrix(host, "Synthetic less real", names, synthetic.map((row, j) => row.map((v, i) => v - beside[j][i])), true));
  byId("dependence-note").textContent = `Of the last release.${beside ? " In the difference, blue is too much dependence and red too little." : ""}`;
  return found;
}

function drawMatrices(matrices) {
  const most = (chosen) => roundUp(Math.max(...chosen.flatMap((m) => m.values.flatMap((row, j) => row.filter((_, i) => i !== j).map(Math.abs))), 0.05));
  for (const difference of [false, true]) {
    const alike = matrices.filter((m) => m.difference === difference);
    for (const matrix of alike) matrix.show(most(alike));
  }
}
