// ---- the page -------------------------------------------------------------------------------------------------------

const data = JSON.parse(byId("data").textContent);
const { releases, columns, pairs, card } = data;
const state = { release: releases.length, pair: 1, timer: null };
const last = releases[releases.length - 1];

function introduce() {
  const windows = releases.some((r) => r.start > 0);
  const { data: name, run } = data.names;
  byId("overline").textContent = ["Headwater report", ...(run ? [`run ${run.slice(0, 12)}`] : [])].join(" · ");
  document.title = name ? `${name}: Headwater report` : "Headwater report";
  byId("headline").textContent = `${name ? `${name}: ` : ""}${whole(last.rows)} synthetic records, published ${data.total === 1 ? "once" : `${whole(data.total)} times`}`;
  const grew = releases.length > 1 ? ` They follow a stream that grew from ${whole(releases[0].t)} to ${whole(last.t)} records.` : "";
  const some = data.total > releases.length ? ` ${releases.length} of the ${whole(data.total)} releases are shown, evenly spread, the first and the last among them.` : "";
  byId("lead").textContent = `Every release is covered by one fixed privacy budget, ${card.promise.replaceAll(" = ", "\u00a0=\u00a0")}.${grew}${some}`;
  for (const [id, text] of [["epsilon", card.loss], ["whom", card.whom], ["promise", card.meaning], ["limits", card.limits]]) byId(id).replaceChildren(...powers(text));
  const facts = [["Guarantee", card.guarantee ?? card.neighbours], ["Records, t", whole(last.t)], ["Last published", last.time.replace("T", " ").replace("+00:00", " UTC").replace(/Z$/, " UTC")], ["Made by", `Headwater ${card.headwater}`]];
  facts.push(["Mechanism", card.mechanism_reason ? `${card.mechanism} (${card.mechanism_reason})` : card.mechanism]);
  if (card.noise) facts.push(["Noise", card.noise]);
  if (run) facts.unshift(["Run", run]);
  if (name) facts.unshift(["Data", name]);
  if (windows) facts.splice(3, 0, ["Last release is about", `records ${whole(last.start + 1)} to ${whole(last.end)}`]);
  byId("facts").append(...facts.map(([term, text]) => make("div", { class: text.length > 60 ? "wide" : "" }, make("dt", {}, term), make("dd", {}, text))));
  byId("facts").parentElement.open = innerWidth > 640;
  byId("columns-key").append(make("span", {}, make("i"), "release: share of rows that have a value"));
  if (columns.some((column) => column.bars)) byId("columns-key").append(make("span", {}, make("i", { class: "whiskers" }), "whiskers: 90 % error bars of the last release"));
  byId("origin").textContent = `${card.note ? `${card.note} ` : ""}${data.real ? "" : "This page was computed from published releases alone. "}Bins come from the declared bounds of the schema, not from the data.`;
  if (columns.some((column) => column.log)) byId("columns-key").append(make("span", {}, "Logarithmic axis: chosen by itself where most values of the last release lie in the first sixteenth of the declared range."));
  if (!data.real) return;
  if (!data.real.public) document.title = `NOT PRIVATE: ${document.title}`;
  byId("warning").hidden = byId("badge").hidden = data.real.public;
  byId("shortage").hidden = !data.real.shortage;
  byId("shortage").textContent = data.real.shortage || "";
  byId("columns-key").append(make("span", {}, make("i", { class: "real" }), `real data${data.real.public ? "" : ", not private"}: the records that the release is about`));
}

function build() {
  state.marginals = columns.map((column) => chartOf(column, `${column.kind}${column.log ? ", logarithmic axis" : ""}`));
  byId("marginals").append(...state.marginals.map((chart) => chart.figure));
  offerPairs(pairs, columns, (chosen) => { state.pair = chosen; refresh(); });
  if (pairs.length) state.densities = [false, ...(data.real ? [true] : [])].map((real) => new Density(byId("densities"), real, null, real && data.real.public ? "Real data" : undefined));
  drawQuality(data.quality, data.real);
  drawSample(data.sample, data.real, data.columns);
  byId("tails").hidden = columns.every((column) => column.labels);
  byId("tails").addEventListener("click", () => {
    const on = byId("tails").getAttribute("aria-pressed") !== "true";
    byId("tails").setAttribute("aria-pressed", on);
    for (const chart of state.marginals) chart.log = on;
    refresh();
  });
  byId("slider").max = releases.length;
  byId("slider").addEventListener("input", (event) => { stop(); state.release = +event.target.value; refresh(); });
  byId("play").addEventListener("click", () => (state.timer ? stop() : play()));
  byId("play").disabled = byId("slider").disabled = releases.length === 1;
}

function play() {
  if (state.release === releases.length) { state.release = 1; refresh(); }
  state.timer = setInterval(() => {
    state.release += 1;
    refresh();
    if (state.release === releases.length) stop();
  }, 600);
  playing(true);
}

function stop() {
  clearInterval(state.timer);
  state.timer = null;
  playing(false);
}

function playing(on) {
  const button = byId("play");
  button.setAttribute("aria-pressed", on);
  button.querySelector("span").textContent = on ? "Pause" : "Play";
  button.querySelector("path").setAttribute("d", on ? "M3 1h4v14H3zM9 1h4v14H9z" : "M3 1l11 7-11 7z");
  byId("which").setAttribute("aria-live", on ? "off" : "polite");
}

function refresh() {
  if (!document.documentElement.clientWidth) { requestAnimationFrame(refresh); return; }  // not laid out yet
  const index = state.release - 1, release = releases[index];
  const about = release.start > 0 ? `, records ${whole(release.start + 1)} to ${whole(release.end)}` : "";
  const text = `Release ${state.release} of ${releases.length}: t = ${whole(release.t)}${about}, ${day(release.time)}`;
  byId("which").textContent = text;
  byId("slider").value = state.release;
  byId("slider").setAttribute("aria-valuetext", text);
  lineChart(byId("growth"), data.growth, index);
  state.marginals.forEach((chart, i) => {
    const column = columns[i], notes = [];
    if (column.missing) {
      const real = column.real ? `, real ${percent(sharesOf(column.real[index]).missing)}` : "";
      notes.push(`missing ${percent(sharesOf(column.counts[index]).missing)}${real}`);
    }
    chart.below.lastChild.textContent = notes.join(" · ");
  });
  for (const chart of state.marginals) chart.show(index, state.release === releases.length);  // when every note has its lines, and cards their heights
  if (pairs.length) drawPair(index);
  try { history.replaceState(null, "", `#release=${state.release}&pair=${state.pair}`); } catch { /* some browsers refuse on files */ }
}

const day = (time) => time.slice(0, 16).replace("T", " ");

function drawPair(index) {
  const pair = pairs[state.pair - 1], frames = [pair.frames[index], ...(pair.real ? [pair.real[index]] : [])];
  showPair(pair, columns, state.pair, frames, state.densities.map((density) => [density, index]));
}

/** The state that an address asks for: #release=3&pair=1. Nonsense is ignored. */
function follow() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const within = (value, most) => (/^\d{1,6}$/.test(value ?? "") ? Math.min(Math.max(+value, 1), Math.max(most, 1)) : null);
  state.release = within(asked.get("release"), releases.length) ?? state.release;
  state.pair = within(asked.get("pair"), pairs.length) ?? state.pair;
}

introduce();
build();
playing(false);
follow();
refresh();
let size = innerWidth;
window.addEventListener("resize", () => { if (innerWidth !== size) { size = innerWidth; refresh(); } });
window.addEventListener("hashchange", () => { follow(); refresh(); });
dark.addEventListener("change", refresh);
document.body.dataset.ready = "true";
