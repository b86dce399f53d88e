// What a report's reader meets who cannot use a mouse, sees little or no colour, or has a narrow screen. Returns sentences.
const found = [];
const shown = (element) => element.checkVisibility && element.checkVisibility();
const where = (element) => {
  const of = element.closest("svg, table, details, pre, p, ul, h1, h2, h3") || element;
  const title = of.querySelector("title, th, summary");
  return `<${element.tagName.toLowerCase()}> "${element.textContent.trim().slice(0, 60)}" in <${of.tagName.toLowerCase()}> "${
    (title ? title.textContent : of.textContent).trim().slice(0, 50)}"`;
};

// WCAG 2.2, relative luminance and contrast ratio.
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (color) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
};
const luminance = (color) => {
  const [r, g, b] = Array.from(rgba(color)).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratios = new Map();
const contrast = (a, b) => {
  const key = `${a} ${b}`;
  if (!ratios.has(key)) {
    const [one, other] = [luminance(a), luminance(b)];
    ratios.set(key, (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05));
  }
  return ratios.get(key);
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (color !== "rgba(0, 0, 0, 0)" && color !== "transparent") return color;
  }
  return "rgb(255, 255, 255)";
};

// Reflow (1.4.10): only what scrolls by itself is wider than the screen, and whoever has no mouse can scroll it.
const page = document.documentElement;
if (page.scrollWidth > window.innerWidth) {
  const wide = Array.from(document.querySelectorAll("body *")).filter((one) => shown(one) && !one.closest(".wide, pre, svg")
    && one.getBoundingClientRect().right > window.innerWidth + 0.5);
  found.push(`the page is ${page.scrollWidth} wide on ${window.innerWidth}: ${wide.slice(0, 3).map(where).join("; ")}`);
}
for (const element of document.querySelectorAll("body *")) {
  const scrolls = /auto|scroll/.test(getComputedStyle(element).overflowX);
  if (shown(element) && scrolls && element.scrollWidth > element.clientWidth && element.tabIndex < 0) {
    found.push(`it scrolls, and has no place in the keyboard's order: ${where(element)}`);
  }
}

// Contrast of text (1.4.3) outside pictures.
let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || element.closest("svg") || !shown(element)) continue;
  texts += 1;
  const [ink, under] = [getComputedStyle(element).color, ground(element)];
  if (contrast(ink, under) < 4.5) found.push(`text ${ink} on ${under}: ${where(element)}`);
}

// Pictures: texts and marks against what lies under them, and texts apart from each other.
const GUIDES = ["rgb(221, 221, 221)"]; // Lines that only guide the eye: nothing is read from them.
const isColor = (paint) => paint.startsWith("rgb");
let pictures = 0;
for (const svg of document.querySelectorAll("svg")) {
  if (!shown(svg)) continue;
  pictures += 1;
  const drawn = Array.from(svg.querySelectorAll("text, path, rect")).filter((one) => !one.closest("defs"));
  const boxes = drawn.map((one) => one.getBBox());
  const inPicture = svg.viewBox.baseVal;
  const style = drawn.map((one) => getComputedStyle(one));
  const opaque = (at) => isColor(style[at].fill) && Number(style[at].fillOpacity) === 1 && Number(style[at].opacity) === 1;
  const under = (at, x, y) => {
    const point = new DOMPoint(x, y);
    for (let below = at - 1; below >= 0; below -= 1) {
      const box = boxes[below];
      const holds = x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
      if (holds && drawn[below].tagName !== "text" && opaque(below) && drawn[below].isPointInFill(point)) {
        return style[below].fill;
      }
    }
    return ground(svg);
  };
  const words = [];
  drawn.forEach((one, at) => {
    const box = boxes[at];
    if (one.tagName === "text") {
      texts += 1;
      const beneath = under(at, box.x + box.width / 2, box.y + box.height / 2);
      if (contrast(style[at].fill, beneath) < 4.5) found.push(`text ${style[at].fill} on ${beneath}: ${where(one)}`);
      if (box.x < -1 || box.x + box.width > inPicture.width + 1 || box.y + box.height > inPicture.height + 1) {
        found.push(`text reaches out of its picture: ${where(one)}`);
      }
      // A line's box has room above capitals and below the line of writing.
      const size = parseFloat(style[at].fontSize);
      const line = { x: box.x + 1, y: box.y + size * 0.25, right: box.x + box.width - 1, bottom: box.y + box.height - size * 0.25 };
      const other = words.find((two) => line.x < two.line.right && two.line.x < line.right
        && line.y < two.line.bottom && two.line.y < line.bottom);
      if (other) found.push(`texts overlap: ${where(one)} and "${other.one.textContent}"`);
      words.push({ line, one });
      return;
    }
    // Contrast of what is not text (1.4.11): a mark by its edge or by its filling.
    const paints = [style[at].stroke, style[at].fill].filter((paint) => isColor(paint) && !GUIDES.includes(paint));
    const beneath = "rgb(255, 255, 255)"; // Every picture draws its own ground.
    const best = Math.max(...paints.map((paint) => contrast(paint, beneath)));
    if (one.querySelector("title") && paints.length > 0 && best < 3) found.push(`a mark ${paints} on ${beneath}: ${where(one)}`);
  });
}
return [found, texts, pictures];
