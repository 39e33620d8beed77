// ---- how good it is: tables and the matrix of dependence -------------------------------------------------------------------

const four = (error) => (error === null || error === undefined ? "" : error < 0.00005 ? "0" : error.toFixed(4));

const graded = (grade) => make("span", { class: `grade ${grade}` }, grade);

/** Fill a table: titles, then rows of texts or elements. A title in a list is that of numbers. */
function tabulate(table, titles, rows) {
  const kinds = titles.map((title) => (Array.isArray(title) ? "number" : "name"));
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

function drawQuality(quality) {
  byId("quality").hidden = !quality || !(quality.answers.length || quality.columns.length);
  if (byId("quality").hidden) return;
  const { columns, pairs, measured } = quality, expected = columns.some((c) => c.expected !== null);
  byId("meaning").replaceChildren(...quality.meaning.map((text) => make("p", { class: "meaning" }, text)));
  tabulate(byId("answers"), ["Question", ["Error"], "Answers are", "Where"], quality.answers.map((a) =>
    [a.question, a.question.startsWith("Small") ? "" : four(a.error), graded(a.grade), a.detail]));
  drawCut(Object.entries(quality.cut ?? {}));
  byId("worst-columns").hidden = columns.length === 0;
  tabulate(byId("worst-columns").querySelector("table"), ["Column", ...(measured ? [["Error"]] : []), ...(expected ? [["Expected"]] : []), "Answers are", ...(measured ? [["W1"]] : [])],
    columns.map((c) => [breakable(c.name), ...(measured ? [four(c.error)] : []), ...(expected ? [four(c.expected)] : []), graded(c.grade), ...(measured ? [four(c.w1)] : [])]));
  byId("worst-pairs").hidden = pairs.length === 0;
  tabulate(byId("worst-pairs").querySelector("table"), ["Pair", ["Error"], "Answers are"], pairs.map((p) =>
    [[...breakable(p.x), " × ", ...breakable(p.y)], four(p.error), graded(p.grade)]));
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
  const mild = cut.every(([, share]) => share < 0.01);
  byId("cut").hidden = cut.length === 0;
  byId("cut").classList.toggle("mild", mild);
  byId("cut").replaceChildren(make("strong", {}, mild ? "Bounds cut a few real values. " : "Bounds cut real values. "), `Such a value counts as the bound in every release, and here. ${cut.map(([name, share]) => `${name}: ${percent(share)}`).join("; ")}. Declare wider bounds if they are known without the data, or null_values if such values mean that there is none.`);
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

/** Tables of shaded cells, a row and a column for each column of the data; none if there is only one. */
function drawDependence(dependence, real) {
  byId("dependence").hidden = !dependence || dependence.names.length < 2;
  if (byId("dependence").hidden) return;
  const { names, synthetic, real: beside } = dependence;
  const show = (most, title, values) => byId("matrices").append(matrix(title, names, values, most));
  const most = (...found) => roundUp(Math.max(0.05, ...found.flatMap((values) => values.flatMap((row, j) => row.filter((_, i) => i !== j).map(Math.abs)))));
  byId("matrices").classList.toggle("large", names.length > 18);
  if (!beside) { show(most(synthetic), "Synthetic", synthetic); return; }
  show(most(synthetic, beside), real.public ? "Real" : "Real, not private", beside);
  show(most(synthetic, beside), "Synthetic", synthetic);
  const less = synthetic.map((row, j) => row.map((value, i) => value - beside[j][i]));
  show(most(less), "Synthetic less real", less);
  byId("dependence-note").append(" In the difference, blue is too much dependence and red too little.");
}

function matrix(title, names, values, most) {
  const written = names.length <= 4;  // else a cell says what it is only when it is pointed at
  const head = make("tr", {}, make("th"), ...names.map((name, i) => make("th", { scope: "col", title: name }, `${i + 1}`)));
  const rows = names.map((name, j) => make("tr", {}, make("th", { scope: "row", title: name }, `${j + 1}\u2002${name}`), ...values[j].map((value, i) => {
    const cell = make("td", { title: i === j ? name : `${name} × ${names[i]}: ${value.toFixed(3)}` }, written && i !== j ? value.toFixed(3) : "");
    const shade = `var(--${value < 0 ? "real" : "synthetic"}) ${(70 * Math.min(Math.abs(value) / most, 1)).toFixed(1)}%`;
    if (i !== j) cell.style.background = `color-mix(in oklab, ${shade}, transparent)`;
    return cell;
  })));
  const table = make("table", { class: "matrix" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const scale = make("p", { class: "below" }, make("span"), make("span", {}, `strongest shade: ${+most.toPrecision(2)}`));
  return make("figure", { class: "card" }, make("figcaption", {}, make("span", { class: "title" }, title)), make("div", { class: "table", tabindex: "0", role: "region", "aria-label": `${title}: dependence of every pair of columns` }, table), scale);
}
