// ---- the live page: fetches what is drawn whenever the service says that something has changed ---------------------------

const base = location.pathname.replace(/\/+$/, "");
const state = { data: null, shape: "", pair: 1, charts: [], densities: [], busy: false, again: false, etag: "" };

function facts(data) {
  const now = data.releases[data.current], made = data.published[data.published.length - 1];
  const found = [["Guarantee", data.card.guarantee ?? data.card.neighbours], ["Mechanism", data.card.mechanism], ["Records, t", whole(Math.max(data.t, state.newest ?? 0))],
    ["Releases published", whole(data.total)], ["Last published", made ? `t = ${whole(made.t)}, ${clock(made.time)}` : "none yet"],
    ["This page shows", `t = ${whole(data.t)}, ${clock(now.time)}`]];
  byId("facts").replaceChildren(...found.map(([term, text]) => make("div", { class: text.length > 60 ? "wide" : "" }, make("dt", {}, term), make("dd", {}, text))));
}

const clock = (time) => `${time.slice(0, 19).replace("T", " ")} UTC`;

function recent(data) {
  return data.window ? `records ${whole(data.window.start + 1)} to ${whole(data.window.t)}` : null;
}

/** Charts are built anew only when columns, bins or the window appear or change; else the numbers in them change. */
function build(data) {
  const window = recent(data);
  const shape = JSON.stringify([data.columns.map((c) => [c.name, c.kind, c.labels, c.edges.length]), data.pairs.map((p) => [p.x, p.y]), window !== null]);
  if (shape === state.shape) return;
  state.shape = shape;
  state.charts = data.columns.map((column) => chartOf(beside(column, window), column.kind));
  byId("marginals").replaceChildren(...state.charts.map((chart) => chart.figure));
  byId("columns-key").replaceChildren(make("span", {}, make("i"), "all records: share of rows that have a value"));
  if (window) byId("columns-key").append(make("span", {}, make("i", { class: "real" }), make("span", { id: "recent" })));
  state.pair = Math.min(state.pair, Math.max(data.pairs.length, 1));
  offerPairs(data.pairs, data.columns, (chosen) => { state.pair = chosen; drawPair(); });
  byId("densities").replaceChildren();
  state.densities = data.pairs.length ? ["All records", ...(window ? [window] : [])].map((name) => new Density(byId("densities"), false, null, name)) : [];
}

/** A column as the charts of the report take it: the window stands where the report has the real data. */
const beside = (column, window) => ({ ...column, counts: [column.counts[0]], real: window ? [column.counts[1]] : undefined, beside: window });

const count = (t) => { byId("headline").textContent = `${whole(t)} ${t === 1 ? "record" : "records"}`; };

function refresh() {
  const data = state.data;
  if (!data) return;
  if (!byId("drawn").hidden && !byId("marginals").clientWidth) { requestAnimationFrame(refresh); return; }  // not laid out yet
  count(Math.max(data.t, state.newest ?? 0));
  byId("drawn").hidden = data.t === 0;
  document.body.dataset.t = data.t;
  if (data.t === 0) { byId("lead").textContent = "No record has come yet. The page changes by itself when one does."; return; }
  byId("lead").textContent = `As many synthetic records as have come, under one fixed privacy budget, ${data.card.promise.replaceAll(" = ", "\u00a0=\u00a0")}. Nothing here is a record of anyone.`;
  facts(data);
  build(data);
  const window = recent(data), last = data.current;
  lineChart(byId("growth"), data.growth, last);
  if (window) byId("recent").textContent = `${window}, from the same noisy counts`;
  state.charts.forEach((chart, i) => {
    const column = data.columns[i];
    chart.column = beside(column, window);
    chart.show(0, true);
    chart.below.lastChild.textContent = column.missing ? `missing ${percent(sharesOf(column.counts[0]).missing)}` : "";
  });
  drawQuality(data.quality, null);
  drawSample(data.sample, null, data.columns);
  drawPair();
}

function drawPair() {
  const data = state.data;
  if (!data.pairs.length) return;
  if (!state.densities[0].svg.getBoundingClientRect().width) { requestAnimationFrame(drawPair); return; }
  const pair = data.pairs[state.pair - 1];
  showPair(pair, data.columns, state.pair, pair.frames, state.densities.map((density, i) => [density, i]));
}

/** One request at a time; if something changed meanwhile, one more. */
async function load() {
  if (state.busy) { state.again = true; return; }
  state.busy = true;
  try {
    do {
      state.again = false;
      const answer = await fetch(`${base}/live`, { headers: { Accept: "application/json" }, cache: "no-cache" });
      if (answer.ok) { state.data = await answer.json(); refresh(); }
      // The service makes a new release of this moment only so often: look again if it was an older one.
      if (answer.ok && state.newest > state.data.t) { await new Promise((done) => setTimeout(done, 1000)); state.again = true; }
    } while (state.again);
  } catch { /* the service is away: the stream of events says when it is back */ } finally { state.busy = false; }
}

function connection(kind, text) {
  byId("link").className = `link ${kind}`;
  byId("link").lastChild.textContent = text;
  document.body.dataset.link = kind;
}

/** Connects again and again: after an error of some kinds a browser would give up for good. */
function listen() {
  const source = new EventSource(`${base}/events`);
  source.addEventListener("open", () => connection("live", "live: the page changes by itself"));
  source.addEventListener("state", (event) => { state.newest = JSON.parse(event.data).t; count(state.newest); load(); });
  source.addEventListener("error", () => {
    connection("lost", "the service is away; trying again");
    source.close();
    setTimeout(listen, 1000);
  });
}

let size = innerWidth;
window.addEventListener("resize", () => { if (innerWidth !== size && state.data) { size = innerWidth; refresh(); } });
dark.addEventListener("change", refresh);
load();
listen();
