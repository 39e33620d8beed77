// ---- how good it is: tables, rows and means by group ---------------------------------------------------------------------

/** Fill a table: titles, then rows of texts or elements. A title in a list is that of numbers. */
function tabulate(table, titles, rows) {
  const kinds = titles.map((title) => (Array.isArray(title) ? "number" : "name"));
  const head = make("tr", {}, ...titles.map((title, i) => make("th", { scope: "col", class: kinds[i] }, ...[title].flat())));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, i) => make("td", { class: cell === null ? `none ${kinds[i]}` : kinds[i] }, ...[cell ?? "missing"].flat()))));
  table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
}

/** Hide all but the first rows of a table behind a button. */
function shorten(host, rows = 10) {
  const button = host.querySelector("button"), rest = [...host.querySelectorAll("tbody tr")].slice(rows);
  const show = (all) => { for (const row of rest) row.hidden = !all; button.textContent = all ? `${rows} only` : `All ${rest.length + rows}`; button.setAttribute("aria-expanded", all); };
  button.hidden = rest.length === 0;
  button.onclick = () => show(rest[0].hidden);
  show(false);
}

/** A table of the section; it is hidden where it would have no rows. Columns whose cells are all null are left out. */
function listing(id, titles, rows, note = "") {
  const host = byId(id), kept = titles.map((_, i) => rows.some((row) => row[i] !== null));
  host.hidden = rows.length === 0;
  tabulate(host.querySelector("table"), titles.filter((_, i) => kept[i]), rows.map((row) => row.filter((_, i) => kept[i]).map((cell) => cell ?? "")));
  host.querySelector(".note").textContent = note;
  if (host.querySelector("button")) shorten(host);
}

const known = (value, text) => (value === null || value === undefined ? null : text(value));
const deviations = (value) => known(value, (w) => `${w.toFixed(3)} sd`);
const around = (value, half, digits) => `${value.toFixed(digits)}${half === null ? "" : ` ± ${half.toFixed(digits)}`}`;

function drawQuality(quality, real) {
  byId("quality").hidden = !quality || !(quality.questions.length || quality.correlations.length);
  if (byId("quality").hidden) return;
  const both = (errors) => known(errors, ([mean, rare]) => `${mean}, ${rare}`);
  listing("questions", ["Question", ["Expected error"], ["Error"], ["Bars held"]], quality.questions.map((q) => [q.kind, both(q.expected), both(q.measured), known(q.held, percent)]),
    "The mean, and what 95 % of the errors are below.");
  listing("worst-columns", ["Column", ["Expected"], ["Error of a share"], ["Expected"], ["W1"]],
    quality.columns.map((c) => [breakable(c.name), known(c.expected, percent), known(c.share, percent), deviations(c.expected_w1), deviations(c.w1)]));
  listing("worst-pairs", ["Pair", ["Error of a share"]], quality.pairs.map((p) => [[...breakable(p.x), " × ", ...breakable(p.y)], percent(p.share)]),
    quality.pairs_total > quality.pairs.length ? `The worst ${quality.pairs.length} of ${whole(quality.pairs_total)} pairs.` : "");
  listing("correlations", ["Pair", ["Release"], ["Real"]], quality.correlations.map((c) => [[...breakable(c.x), " × ", ...breakable(c.y)], around(c.found, c.half, 2), known(c.real, (r) => r.toFixed(2))]));
  drawCut(Object.entries(quality.cut), Object.entries(quality.stepped));
  const w1 = quality.w1 === null ? "" : ` W1 of the whole table, in the unit cube: ${quality.w1}.`;
  const from = real ? "Errors against the real records that the last release is about." : quality.questions.length ? "Expected errors are from public numbers alone." : "";
  byId("quality-note").textContent = `${quality.questions.length ? `${quality.meaning} ` : ""}${from}${w1}`;
  byId("groups").hidden = quality.groups.length === 0;
  byId("means").replaceChildren(...quality.groups.map(means));
}

/** Which bounds and steps of the schema change real values: the first thing to correct. */
function drawCut(cut, stepped) {
  byId("cut").hidden = cut.length + stepped.length === 0;
  const list = (all) => all.map(([name, share]) => `${name}: ${share}`).join("; ");
  byId("cut").replaceChildren(
    ...(cut.length ? [make("p", {}, make("strong", {}, "Bounds cut real values. "), `Such a value counts as the bound in every release, and here. ${list(cut)}. Declare wider bounds if they are known without the data, or null_values if such values mean that there is none.`)] : []),
    ...(stepped.length ? [make("p", {}, make("strong", {}, "Steps change real values. "), `Releases round to the declared step. ${list(stepped)}. Declare a finer step, or none.`)] : []));
}

/** The means of one column by the groups of another: a dot with its whisker, and a mark for the real one. */
function means({ column, by, rows }) {
  const ends = rows.flatMap((r) => [r.mean - (r.half ?? 0), r.mean + (r.half ?? 0), r.real ?? r.mean]);
  const low = Math.min(...ends), span = Math.max(...ends) - low || 1, digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(span))));
  const at = (value) => `${2 + 96 * (value - low) / span}%`;
  const cells = rows.flatMap((r) => {
    const track = make("span", { class: "track thin" });
    const place = (kind, left, right) => { const one = make("span", { class: kind }); one.style.left = left; if (right) one.style.right = right; track.append(one); };
    if (r.half !== null) place("whisker", at(r.mean - r.half), `${98 - 96 * (r.mean + r.half - low) / span}%`);
    place("point", at(r.mean));
    if (r.real !== null) place("mark", at(r.real));
    return [make("span", { class: "label", title: r.group }, r.group), track, make("span", { class: "number", title: r.real === null ? "" : `real ${r.real.toFixed(digits)}` }, around(r.mean, r.half, digits))];
  });
  return make("figure", { class: "card" }, make("figcaption", {}, make("h3", {}, ...breakable(column)), make("span", { class: "soft" }, `mean by ${by}`)), make("div", { class: "rows" }, ...cells));
}

function drawSample(sample, real, columns) {
  byId("sample").hidden = !sample || sample.synthetic.length === 0;
  if (byId("sample").hidden) return;
  const host = byId("rows"), names = sample.columns;
  host.className = names.length > 5 || !sample.real ? "stacked" : "two";
  const titles = columns.map((c) => (c.kind === "number" || c.kind === "integer" ? [c.name] : c.name));
  const shown = (title, rows, kind) => {
    const table = make("table", { class: "sample" });
    tabulate(table, titles, rows);
    return make("figure", { class: "card" }, make("figcaption", {}, make("span", { class: `title ${kind}` }, title)), make("div", { class: "table", tabindex: "0", role: "region", "aria-label": title }, table));
  };
  host.replaceChildren(shown("Synthetic", sample.synthetic, ""), ...(sample.real ? [shown(real.public ? "Real" : "Real, not private", sample.real, "real")] : []));
  const wide = [...host.querySelectorAll(".table")].some((table) => table.scrollWidth > table.clientWidth);
  byId("sample-note").textContent = `Synthetic rows are drawn from a model of noisy counts: none of them stands for a real row.${sample.real ? " Real rows were picked at random; rows of the two tables have nothing to do with each other." : ""}${wide ? ` ${names.length} columns: scroll sideways.` : ""}`;
}
