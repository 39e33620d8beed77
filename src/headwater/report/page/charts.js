// ---- charts ---------------------------------------------------------------------------------------------------------

/** A line over releases: a dot for each, a rule at the chosen one. */
function lineChart(svg, { x, y, series, dashed, describe }, index) {
  const { width, height } = svg.getBoundingClientRect();
  const left = Math.max(...y.ticks.map(([, label]) => widthOf(label))) + 12, right = 12, top = 24, bottom = 42;
  const [w, h] = [width - left - right, height - top - bottom];
  const px = (p) => left + p * w, py = (p) => top + h - p * h;
  svg.replaceChildren(draw("title", {}, describe));
  svg.append(draw("text", { x: 0, y: 11 }, y.label));
  svg.append(draw("text", { x: left + w, y: height - 4, "text-anchor": "end" }, x.label));
  axes(svg, { left, top, w, h, width }, x.ticks, y.ticks);
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join("");
  if (dashed) svg.append(draw("path", { class: "line dashed", d: path(dashed) }));
  svg.append(draw("path", { class: "line", d: path(series) }));
  for (const [a, b] of series) svg.append(draw("circle", { class: "dot", cx: px(a), cy: py(b), r: series.length > 30 ? 2 : 2.75 }));
  const [a, b] = series[index];
  svg.append(draw("line", { class: "now", x1: px(a), x2: px(a), y1: top, y2: top + h }));
  svg.append(draw("circle", { class: "dot", cx: px(a), cy: py(b), r: 5 }));
}

/** The lines and labels of both axes: ticks are places from 0 to 1 with their labels. */
function axes(svg, { left, top, w, h, width }, below, beside) {
  for (const [p, label] of beside) {
    const y = top + h - p * h;
    svg.append(draw("line", { class: "grid-line", x1: left, x2: left + w, y1: y, y2: y }));
    svg.append(draw("text", { x: left - 7, y: y + 4, "text-anchor": "end" }, label));
  }
  svg.append(draw("line", { class: "axis", x1: left, x2: left + w, y1: top + h, y2: top + h }));
  ticksBelow(svg, below, left, w, top + h, width);
}

/** Shares of rows that are not missing, and the share of those that are. */
function sharesOf(counts) {
  const there = counts.slice(0, -1), rows = there.reduce((a, b) => a + b, 0), gone = counts[counts.length - 1];
  return { shares: there.map((c) => (rows ? c / rows : 0)), missing: rows + gone ? gone / (rows + gone) : 0 };
}

/** How high bars are: shares, or what they would be if bins of another width were as wide as most are, and never more than all.
 * On a logarithmic axis widths say nothing of how many values a bin holds: there a bar is the share of its bin. */
function heights(column, shares) {
  if (column.log) return shares;
  const widths = column.edges.slice(1).map((edge, i) => edge - column.edges[i]).sort((a, b) => a - b);
  const usual = widths[widths.length >> 1];
  return shares.map((s, i) => Math.min(1, s * usual / (column.edges[i + 1] - column.edges[i])));
}

class Histogram {
  constructor(column, card) {
    this.column = column;
    this.svg = draw("svg", { class: "chart histogram", role: "img" });
    card.append(this.svg);
    this.svg.addEventListener("pointermove", (event) => this.read(event));
    this.svg.addEventListener("pointerleave", () => this.say(""));
  }

  show(index, whiskers = false) {
    const { column, svg } = this, { width, height } = svg.getBoundingClientRect();
    const left = 44, top = 8, bottom = 22, [w, h] = [width - left - 4, height - top - bottom];
    this.plot = { left, w };
    this.now = sharesOf(column.counts[index]).shares;
    this.then = column.real && sharesOf(column.real[index]).shares;
    this.bars = whiskers ? column.bars : null;
    const ends = this.bars && [1, -1].map((sign) => heights(column, this.now.map((v, i) => Math.max(v + sign * this.bars[i], 0))));
    const highest = roundUp(Math.max(...heights(column, this.now), ...heights(column, this.then ?? []), 1e-6, ...(ends ? ends[0].filter((v, i) => this.bars[i] < this.now[i]) : [])));
    svg.replaceChildren(draw("title", {}, `Histogram of ${column.name}`));
    const decades = this.log ? Math.max(1, Math.min(5, Math.ceil(Math.log10(highest / leastOf(this.now, this.then))))) : 0;
    const level = (v) => (decades ? Math.max(0, 1 + Math.log10(Math.max(v, 1e-12) / highest) / decades) : v / highest);
    const marks = decades ? range(0, decades).map((i) => highest / 10 ** i) : [0, 0.5, 1].map((part) => part * highest);  // all are round
    axes(svg, { left, top, w, h, width }, column.ticks, marks.map((mark) => [level(mark), tickPercent(mark)]));
    const at = (v) => (left + v * w).toFixed(2), up = (v) => (top + h - level(v) * h).toFixed(2);
    const gap = Math.min(1, (w / column.edges.length) * 0.12) / w;
    const bars = heights(column, this.now).map((v, i) =>
      `M${at(column.edges[i] + gap / 2)} ${up(0)}V${up(v)}H${at(column.edges[i + 1] - gap / 2)}V${up(0)}Z`).join("");
    svg.append(draw("path", { class: "bars", d: bars }));
    if (ends) {
      const lines = ends[0].map((v, i) => `M${at((column.edges[i] + column.edges[i + 1]) / 2)} ${up(Math.min(v, highest))}V${up(ends[1][i])}`);
      svg.append(draw("path", { class: "whisker", d: lines.join("") }));
    }
    if (this.then) {
      const steps = heights(column, this.then).map((v, i) => `V${up(v)}H${at(column.edges[i + 1])}`).join("");
      svg.append(draw("path", { class: "outline", d: `M${at(0)} ${up(0)}${steps}V${up(0)}` }));
    }
  }

  read(event) {
    const p = (event.clientX - this.svg.getBoundingClientRect().left - this.plot.left) / this.plot.w;
    const bin = this.column.edges.findIndex((edge, i) => i < this.now.length && p >= edge && p < this.column.edges[i + 1]);
    this.say(bin < 0 ? "" : `${this.column.names[bin]}: ${percent(this.now[bin])}${this.bars ? ` ± ${percent(this.bars[bin])}` : ""}${this.then ? `, ${this.column.beside ?? "real"} ${percent(this.then[bin])}` : ""}`);
  }
}

class Bars {
  constructor(column, card) {
    this.column = column;
    this.rows = column.labels.map((label) => {
      const row = { fill: make("span", { class: "fill" }), whisker: make("span", { class: "whisker" }), mark: make("span", { class: "mark" }), number: make("span", { class: "number" }) };
      row.mark.hidden = !column.real;
      row.cells = [make("span", { class: "label", title: label }, label), make("span", { class: "track" }, row.fill, row.whisker, row.mark), row.number];
      return row;
    });
    card.append(make("div", { class: "rows" }, ...this.rows.flatMap((row) => row.cells)));
  }

  show(index, whiskers = false) {
    const { shares } = sharesOf(this.column.counts[index]), real = this.column.real && sharesOf(this.column.real[index]).shares;
    const longest = Math.max(...shares, ...(real ?? []), 1e-9);
    this.rows.forEach((row, i) => {
      row.fill.style.width = `${100 * shares[i] / longest}%`;
      const half = (whiskers && this.column.bars?.[i]) || 0;
      row.whisker.hidden = !half;
      row.whisker.style.left = `${100 * Math.max(shares[i] - half, 0) / longest}%`;
      row.whisker.style.right = `${Math.max(100 - 100 * (shares[i] + half) / longest, 0)}%`;
      if (real) row.mark.style.left = `${100 * real[i] / longest}%`;
      row.number.textContent = percent(shares[i]);
      row.number.title = real ? `${this.column.beside ?? "real"} ${percent(real[i])}` : "";
    });
  }
}

class Density {
  constructor(host, real, say, name) {
    this.real = real;
    this.say = say;
    this.canvas = make("canvas", { role: "img" });
    this.svg = draw("svg", { "aria-hidden": "true" });
    const box = make("div", { class: "density" }, this.canvas, this.svg);
    this.below = make("p", { class: "below" }, make("span"), make("span"));
    const title = make("span", { class: real ? "title real" : "title" }, name ?? (real ? "Real data, not private" : "Release"));
    host.append(make("figure", { class: "card" }, make("figcaption", {}, title), box, this.below));
    this.svg.addEventListener("pointermove", (event) => this.read(event));
    this.svg.addEventListener("pointerleave", () => { this.below.firstChild.textContent = ""; });
  }

  show(pair, names, index, top, palette) {
    const { across, up } = pair, frame = (this.real ? pair.real : pair.frames)[index];
    const cells = decode(frame.cells), nx = across.names.length, ny = up.names.length;
    const shares = Array.from(cells, (q) => (frame.rows ? (frame.most / frame.rows) * (q / 255) ** 2 : 0));
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) { requestAnimationFrame(() => this.show(pair, names, index, top, palette)); return; }  // not laid out yet
    const sides = up.labels ?? up.ticks.map(([, label]) => label);
    const left = Math.min(Math.max(...sides.map(widthOf)), width * 0.28) + 14;
    const right = 8, w = width - left - right;
    const slanted = across.labels !== null && across.labels.some((label) => widthOf(label) + 8 > w / nx), bottom = slanted ? 84 : 42;
    const h = height - bottom - 24;
    this.plot = { left, w, h, nx, ny, shares, across, up };

    const ratio = window.devicePixelRatio || 1, canvas = this.canvas;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const pen = canvas.getContext("2d");
    // Cells meet at whole pixels of the screen: no seams.
    const rise = (p) => (up.labels ? 24 + p * h : 24 + h - p * h);  // names are read from the top, numbers from the bottom
    const xs = across.edges.map((e) => Math.round((left + e * w) * ratio)), ys = up.edges.map((e) => Math.round(rise(e) * ratio));
    const wide = across.edges[1] - across.edges[0], tall = up.edges[1] - up.edges[0];
    for (let j = 0; j < ny; j++) for (let i = 0; i < nx; i++) {
      const part = ((across.edges[i + 1] - across.edges[i]) / wide) * ((up.edges[j + 1] - up.edges[j]) / tall);
      const shade = Math.min(255, Math.ceil(255 * Math.sqrt(shares[j * nx + i] / part / top)));
      pen.fillStyle = palette[shade];
      pen.fillRect(xs[i], Math.min(ys[j], ys[j + 1]), xs[i + 1] - xs[i], Math.abs(ys[j] - ys[j + 1]));
    }
    canvas.setAttribute("aria-label", `${this.real ? "Real data" : "Release"}: density of ${names[0]} and ${names[1]}`);

    const svg = this.svg;
    svg.replaceChildren(draw("rect", { class: "axis", fill: "none", x: left, y: 24, width: w, height: h }));
    svg.append(draw("text", { x: 0, y: 12 }, fit(up.labels ? names[1] : `${names[1]} ↑`, width)));
    svg.append(draw("text", { x: left + w, y: height - 3, "text-anchor": "end" }, fit(across.labels ? names[0] : `${names[0]} →`, width)));
    const named = (axis) => axis.labels.map((label, i) => [(axis.edges[i] + axis.edges[i + 1]) / 2, label]);
    for (const [p, label] of up.labels ? named(up) : up.ticks) {
      svg.append(draw("text", { x: left - 8, y: rise(p) + 4, "text-anchor": "end" }, fit(label, left - 12)));
    }
    if (!slanted) ticksBelow(svg, across.labels ? named(across) : across.ticks, left, w, 24 + h, width);
    else for (const [p, label] of named(across)) {
      const x = left + p * w, y = 24 + h + 12;
      svg.append(draw("text", { x, y, "text-anchor": "end", transform: `rotate(-40 ${x} ${y})` }, fit(label, 78)));
    }
    this.below.firstChild.textContent = "";
    this.below.lastChild.textContent = frame.missing ? `${percent(frame.missing / frame.rows)} left out: a value is missing` : "";
  }

  read(event) {
    const box = this.svg.getBoundingClientRect(), { left, w, h, nx, shares, across, up } = this.plot;
    const place = (edges, p) => edges.findIndex((edge, i) => i + 1 < edges.length && p >= edge && p < edges[i + 1]);
    const down = (event.clientY - box.top - 24) / h;
    const i = place(across.edges, (event.clientX - box.left - left) / w), j = place(up.edges, up.labels ? down : 1 - down);
    this.below.firstChild.textContent = i < 0 || j < 0 ? "" : `${across.names[i]} × ${up.names[j]}: ${percent(shares[j * nx + i])}`;
  }
}

/** The card of a column: its chart, and below it a line for what is pointed at and one for notes. */
function chartOf(column, kind) {
  const figure = make("figure", { class: "card" }, make("figcaption", {}, make("h3", {}, ...breakable(column.name)), make("span", { class: "soft" }, kind)));
  const chart = column.labels ? new Bars(column, figure) : new Histogram(column, figure);
  chart.below = make("p", { class: "below" }, make("span"), make("span"));
  chart.say = (text) => { chart.below.firstChild.textContent = text; };
  figure.append(chart.below);
  chart.figure = figure;
  return chart;
}

/** A button for each pair of columns. */
function offerPairs(pairs, columns, choose) {
  byId("pairs").hidden = pairs.length === 0;
  byId("choices").replaceChildren(...pairs.map((pair, i) => {
    const button = make("button", { type: "button" }, `${columns[pair.x].name} × ${columns[pair.y].name}`);
    button.addEventListener("click", () => choose(i + 1));
    return button;
  }));
}

/** Draw the densities of a pair in one scale: number ``chosen`` of the buttons, with the frames that are drawn and where. */
function showPair(pair, columns, chosen, frames, draws) {
  const top = roundUp(Math.max(...frames.map((f) => (f.rows ? f.most / f.rows : 0)), 1e-6)), palette = colours();
  byId("choices").childNodes.forEach((button, i) => button.setAttribute("aria-pressed", i === chosen - 1));
  for (const [density, index] of draws) density.show(pair, [columns[pair.x].name, columns[pair.y].name], index, top, palette);
  const scale = byId("scale").getContext("2d");
  palette.forEach((colour, i) => { scale.fillStyle = colour; scale.fillRect(i, 0, 1, 1); });
  byId("least").textContent = "0%";
  byId("most").textContent = `${tickPercent(top)} of the rows in one cell`;
}

/** The smallest share that is there: where a logarithmic axis has to reach. */
const leastOf = (...shares) => Math.min(1, ...shares.flatMap((s) => s ?? []).filter((s) => s > 0));

const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
