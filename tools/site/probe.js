// What check_browser.py asks a page: each function returns faults, as texts.
"use strict";

/// Texts whose contrast with their paper is below `small`, or below `large` for large letters.
const weakContrast = (small, large) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", {willReadFrequently: true});
  const seen = new Map();
  const colour = (text) => {
    if (!seen.has(text)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = text;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      seen.set(text, [r, g, b, a / 255]);
    }
    return seen.get(text);
  };
  const over =
      (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const paper = (node) => {
    const layers = [];
    for (let one = node; one; one = one.parentElement)
      layers.push(colour(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3)
                          .map((v) => v / 255)
                          .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faults = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const done = new Set();
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || done.has(node) ||
        node.closest("svg, script, style, [hidden], math annotation"))
      continue;
    done.add(node);
    if (!node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    if (style.visibility === "hidden" || Number(style.opacity) < 0.5) continue;
    const below = paper(node);
    const a = light(over(colour(style.color), below)), b = light(below);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 ||
        (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? large : small)) {
      const key = `${node.tagName.toLowerCase()}.${node.className}`;
      if (!faults.has(key))
        faults.set(
            key, `${key} ${ratio.toFixed(2)} "${walker.currentNode.data.trim().slice(0, 24)}"`);
    }
  }
  return [...faults.values()];
};

/// Whether something around a node scrolls sideways.
const scrolls = (node) => node !== null &&
    (["auto", "scroll", "hidden"].includes(getComputedStyle(node).overflowX) ||
     scrolls(node.parentElement));

/// How wide the page is, and because of what, where it is wider than the window.
const overflow = () => {
  const wide = document.documentElement.scrollWidth;
  if (wide <= innerWidth) return [];
  const guilty = [...document.querySelectorAll("main *")]
                     .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
                     .filter((node) => !scrolls(node.parentElement));
  return [`${wide} px`, ...guilty.slice(0, 3).map((node) => `${node.tagName}.${node.className}`)];
};

/// What can be used and has no name.
const nameless = () => [...document.querySelectorAll("input, select, button, a[href]")]
                           .filter((node) => node.getClientRects().length)
                           .filter(
                               (node) =>
                                   !(node.labels?.length || node.getAttribute("aria-label") ||
                                     node.textContent.trim() || node.title))
                           .map((node) => node.outerHTML.slice(0, 80));
