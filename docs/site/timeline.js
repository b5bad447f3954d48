// The front page's picture: memory, allocation by allocation, as the four steps went.
"use strict";

(() => {
  const data = window.workbookTimeline;
  const place = document.getElementById("timeline");
  if (!data || !place) return;
  const WIDTH = place.clientWidth < 600 ? 480 : 1000, HEIGHT = 300, LEFT = 52, RIGHT = 8, TOP = 18,
        BOTTOM = 30, SECONDS = 14, WHOLE_SECONDS = 2;
  const colours = data.kinds.map((kind) => `var(--c-${kind})`);
  const first = data.moments[0][0], last = data.moments[data.moments.length - 1][0];
  const sums = data.moments.map((moment) => moment.slice(1).reduce((sum, bytes) => sum + bytes, 0));
  const most = Math.max(...sums) * 1.08;
  const x = (time) => LEFT + (time - first) / (last - first) * (WIDTH - LEFT - RIGHT);
  const y = (bytes) => HEIGHT - BOTTOM - bytes / most * (HEIGHT - TOP - BOTTOM);
  const node = (tag, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;

  const area = (kind) => {
    const points = [];
    let low = "";
    let before = null;
    for (const moment of data.moments) {
      let sum = 0;
      for (let i = 0; i <= kind; i += 1) sum += moment[1 + i];
      const at = x(moment[0]).toFixed(1);
      if (before !== null)
        points.push(`${at} ${before}`);  // memory stands still until the next allocation
      before = y(sum).toFixed(1);
      points.push(`${at} ${before}`);
    }
    low = ` L${x(last).toFixed(1)} ${y(0)} L${x(first).toFixed(1)} ${y(0)} Z`;
    return node("path", {d: `M${points.join(" L")}${low}`, fill: colours[kind]});
  };

  const clip = node("rect", {x: 0, y: 0, width: WIDTH, height: HEIGHT});
  const cursor =
      node("line", {y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--ink)", "stroke-width": 1});
  const label =
      "Memory of four training steps over time: activations rise and fall, gradients take their place, optimizer states arrive in step 1";
  const picture = node(
      "svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label},
      node("defs", {}, node("clipPath", {id: "so-far"}, clip)));
  for (let value = 0; value <= most; value += 20e6) {
    const text = node("text", {x: LEFT - 8, y: y(value) + 4, "text-anchor": "end"});
    text.textContent = `${value / 1e6} MB`;
    picture.append(
        node("line", {x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), class: "axis"}),
        text);
  }
  // What is still to come stands there faintly: the picture is whole at every moment.
  const whole = node("g", {class: "to-come"});
  for (let kind = data.kinds.length - 1; kind >= 0; kind -= 1) whole.append(area(kind));
  const shown = node("g", {"clip-path": "url(#so-far)"}, ...whole.cloneNode(true).childNodes);
  picture.append(whole, shown);
  for (const [time, name] of data.steps) {
    const text = node("text", {x: x(time) + 5, y: 12});
    text.textContent = name;
    picture.append(
        node("line", {x1: x(time), x2: x(time), y1: 2, y2: HEIGHT - BOTTOM, class: "step"}), text);
  }
  picture.append(cursor);

  const words = document.createElement("p");
  words.className = "now";
  const slider = document.createElement("input");
  Object.assign(slider, {type: "range", min: 0, max: 1000, value: 1000});
  slider.setAttribute("aria-label", "Moment of the run");
  const button = document.createElement("button");
  button.type = "button";

  const phaseAt = (time) => {
    let found = "";
    for (const [begin, end, name] of data.phases)
      if (time >= begin && time < end) found = name;
    return found;
  };
  const momentAt = (time) => {
    let low = 0, high = data.moments.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (data.moments[middle][0] <= time)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  };
  const show = (share) => {
    const time = first + share * (last - first);
    const index = momentAt(time);
    clip.setAttribute("width", x(time));
    cursor.setAttribute("x1", x(time));
    cursor.setAttribute("x2", x(time));
    slider.value = share * 1000;
    words.replaceChildren(...data.kinds.map((kind, i) => {
      const span = document.createElement("span");
      span.innerHTML = `<i style="background:${colours[i]}"></i>${kind} <b>${
          megabytes(data.moments[index][1 + i])}</b>`;
      return span;
    }));
    const phase = document.createElement("span");
    phase.className = "phase";
    phase.textContent = phaseAt(time);
    words.append(phase);
  };

  let started = 0;
  let frame = 0;
  let waiting = 0;
  const stop = () => {
    clearTimeout(waiting);
    cancelAnimationFrame(frame);
    frame = 0;
    button.textContent = "Play";
  };
  const tick = (now) => {
    const share = Math.min(1, (now - started) / 1000 / SECONDS);
    show(share);
    if (share < 1)
      frame = requestAnimationFrame(tick);
    else
      stop();
  };
  const play = () => {
    clearTimeout(waiting);
    const from = Number(slider.value) >= 1000 ? 0 : Number(slider.value) / 1000;
    started = performance.now() - from * SECONDS * 1000;
    button.textContent = "Pause";
    frame = requestAnimationFrame(tick);
  };
  button.addEventListener("click", () => (frame ? stop() : play()));
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value) / 1000);
  });
  const follow = (event) => {
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    if (at >= 0 && at <= 1) {
      stop();
      show(at);
    }
  };
  picture.addEventListener("pointerdown", follow);
  picture.addEventListener("pointermove", (event) => {
    if (event.buttons || event.pointerType === "mouse" && !frame) follow(event);
  });

  const bar = document.createElement("div");
  bar.className = "transport";
  bar.append(button, slider);
  place.replaceChildren(picture, words, bar);
  show(1);
  stop();
  // It begins by itself, once, where readers do not ask for stillness; print has the whole picture.
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  if (!still.matches) waiting = setTimeout(play, WHOLE_SECONDS * 1000);
  still.addEventListener("change", () => {
    if (still.matches) stop();
  });
  window.addEventListener("beforeprint", () => {
    stop();
    show(1);
  });
})();
