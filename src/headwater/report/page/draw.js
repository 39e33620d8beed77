"use strict";

// What goes wrong is written on the page itself, where a test can find it.
window.addEventListener("error", (event) => { document.body.dataset.error = event.message; });
document.addEventListener("securitypolicyviolation", (event) => { document.body.dataset.error = `blocked: ${event.violatedDirective}`; });

// ---- small tools ----------------------------------------------------------------------------------------------------

const byId = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");

/** An element with attributes and children. Text is always set as text, never parsed. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return fill(element, attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A name that may be broken after the marks that join its words. */
const breakable = (name) => name.split(/(?<=[_./-])/).flatMap((part, i) => (i ? [make("wbr"), part] : [part]));

/** A text whose powers, such as e^ε, are raised. */
const powers = (text) => text.split(/\^(\((?:[^()]|\([^()]*\))*\)|[\p{L}\d.]+)/u).map((part, i) => (i % 2 ? make("sup", {}, part) : part));

const whole = (n) => n.toLocaleString("en-US");

/** A share as a percentage with about three digits. */
function percent(share) {
  const p = 100 * share;
  if (p === 0) return "0%";
  return p < 0.01 ? "<0.01%" : `${p.toFixed(p < 1 ? 2 : p < 99.95 ? 1 : 0)}%`;
}

/** The next of 1, 2, 3, 5, 8 times a power of ten: a scale that changes rarely while time goes by. */
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 3, 5, 8, 10].find((f) => f * power >= n * 0.9999) * power;
}

const tickPercent = (share) => `${+(100 * share).toPrecision(3)}%`;

const range = (first, last) => Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => first + i);

// ---- text -----------------------------------------------------------------------------------------------------------

const ruler = document.createElement("canvas").getContext("2d");

function widthOf(text) {
  ruler.font = "11.5px system-ui, sans-serif";
  return ruler.measureText(text).width;
}

/** A text that fits into a width, with an ellipsis if it must be cut. */
function fit(text, width) {
  if (widthOf(text) <= width) return text;
  let letters = Array.from(text);
  while (letters.length > 1 && widthOf(letters.join("") + "…") > width) letters = letters.slice(0, -1);
  return letters.join("") + "…";
}

/** Every n-th label below a line, the smallest n for which they do not touch; those at the ends stay inside the picture. */
function ticksBelow(svg, ticks, left, width, y, right) {
  const all = ticks.map(([p, label]) => {
    const x = left + p * width, half = widthOf(label) / 2;
    return { x, label, half, centre: Math.min(Math.max(x, half), right - half) };
  });
  const apart = (kept) => kept.every((t, i) => i === 0 || t.centre - t.half > kept[i - 1].centre + kept[i - 1].half + 8);
  let kept = all;
  for (let every = 2; !apart(kept) && kept.length > 1; every++) kept = all.filter((_, i) => i % every === 0);
  for (const { x, label, centre } of kept) {
    svg.append(draw("line", { class: "axis", x1: x, x2: x, y1: y, y2: y + 4 }));
    svg.append(draw("text", { x: centre, y: y + 17, "text-anchor": "middle" }, label));
  }
}

// ---- colours --------------------------------------------------------------------------------------------------------

/** 256 colours of evenly changing lightness, from the card's own shade to the strongest; the hue turns on the way. */
function colours() {
  const night = dark.matches;  // in Oklch, where distances are about as large as they look
  return range(0, 255).map((i) => {
    const s = i / 255, L = night ? 0.24 + 0.70 * s : 0.985 - 0.72 * s;
    const hue = night ? 265 - 165 * s : 105 + 170 * s, chroma = 0.125 * Math.sin(Math.PI * Math.min(s * 0.85 + 0.03, 1));
    return `oklch(${L.toFixed(4)} ${chroma.toFixed(4)} ${hue.toFixed(1)})`;
  });
}
