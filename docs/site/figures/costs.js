// What collectives cost on a machine: the link simulator, size by size, with all algorithms.
"use strict";

(() => {
  const {html, svg, number, drawing, widthOf, legend, seconds, bytes, table, ask} =
      window.workbookTools;
  const COLOURS = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c", "#7a5195",
    "#a0522d", "#3f7f3f", "#d81b60", "#9a8c00", "#3949ab"
  ];
  let menu = {ops: []};
  const SIZES = [1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6, 256e6];

  const curves = (answer) => {
    const found = new Map();
    for (const run of answer.runs) {
      if (!found.has(run.algorithm)) found.set(run.algorithm, []);
      found.get(run.algorithm).push(run);
    }
    return found;
  };

  window.workbookFigures.costs = {
    prepare: async () => {
      menu = await ask("collectives", {figure: "menu"});
    },
    controls: [
      {
        name: "op",
        label: "Operation",
        value: "all_reduce",
        options: () => menu.ops.map((entry) => entry.op).filter((op) => op !== "barrier")
      },
      {name: "nodes", label: "Nodes", value: 2, min: 1, max: 32},
      {name: "gpus", label: "GPUs per node", value: 8, min: 1, max: 16},
      {name: "nics", label: "NICs per node", value: 8, min: 1, max: 16},
      {name: "intra_us", label: "α in a node (µs)", value: 3.4, min: 0, step: 0.1},
      {name: "intra_gb", label: "1/β in a node (GB/s)", value: 370, min: 0.001, step: 10},
      {name: "inter_us", label: "α between nodes (µs)", value: 14, min: 0, step: 0.5},
      {name: "inter_gb", label: "1/β of a NIC (GB/s)", value: 50, min: 0.001, step: 5},
    ],
    question: (state) => ({
      figure: "costs",
      op: state.op,
      sizes: SIZES,
      machine: `nodes=${state.nodes},gpus=${state.gpus},nics=${state.nics},intra-us=${
          state.intra_us},intra-gb-per-second=${state.intra_gb},inter-us=${
          state.inter_us},inter-gb-per-second=${state.inter_gb}`
    }),
    draw: (body, answer) => {
      const WIDTH = widthOf(body), HEIGHT = 330, LEFT = 64, RIGHT = 12, TOP = 12, BOTTOM = 40;
      const lines = curves(answer);
      const runs = answer.runs;
      const low = Math.log10(Math.min(...runs.map((run) => run.seconds))),
            high = Math.log10(Math.max(...runs.map((run) => run.seconds)));
      const first = Math.log2(runs[0].bytes), last = Math.log2(runs[runs.length - 1].bytes);
      const x = (size) =>
          LEFT + (Math.log2(size) - first) / Math.max(last - first, 1e-9) * (WIDTH - LEFT - RIGHT);
      const y = (time) => HEIGHT - BOTTOM -
          (Math.log10(time) - low) / Math.max(high - low, 1e-9) * (HEIGHT - TOP - BOTTOM);
      const powers = [];
      for (let power = Math.ceil(low); power <= high; power += 1) powers.push(10 ** power);
      const sizes = [...new Set(runs.map((run) => run.bytes))];
      const names = [...lines.keys()];
      const colourOf = (name) => COLOURS[names.indexOf(name) % COLOURS.length];
      body.replaceChildren(
          html(
              "p", {class: "headline", "aria-live": "polite"},
              number("ranks", answer.topology.ranks, answer.topology.ranks), ` ranks. `,
              answer.crossovers.length ?
                  answer.crossovers.map(
                      (cross, i) =>
                          [i ? "; " : "Fastest: ", `${cross.below} up to `,
                           number(`crossover_${i}`, cross.bytes, bytes(cross.bytes)),
                           `, then ${cross.above}`]) :
                  `Fastest at every size: ${runs.find((run) => run.fastest).algorithm}`,
              "."),
          drawing(
              WIDTH, HEIGHT,
              `Time of ${answer.op} by size, one line for each of ${names.length} algorithms`,
              powers.map(
                  (power) => svg(
                      "g", {},
                      svg("line",
                          {x1: LEFT, x2: WIDTH - RIGHT, y1: y(power), y2: y(power), class: "axis"}),
                      svg("text",
                          {x: LEFT - 8, y: y(power) + 4, "text-anchor": "end", class: "quiet"},
                          seconds(power)))),
              sizes.filter((_, i) => i % 2 === 0)
                  .map(
                      (size) =>
                          svg("text",
                              {x: x(size), y: HEIGHT - 20, "text-anchor": "middle", class: "quiet"},
                              bytes(size))),
              svg("text",
                  {x: (LEFT + WIDTH) / 2, y: HEIGHT - 3, "text-anchor": "middle", class: "quiet"},
                  "size of the array"),
              names.map(
                  (name) =>
                      svg("path", {
                        d: lines.get(name)
                               .map(
                                   (run, i) => `${i ? "L" : "M"}${x(run.bytes).toFixed(1)} ${
                                       y(run.seconds).toFixed(1)}`)
                               .join(""),
                        fill: "none",
                        stroke: colourOf(name),
                        "stroke-width": 2
                      },
                          svg("title", {}, name))),
              runs.filter((run) => run.fastest)
                  .map(
                      (run) =>
                          svg("circle", {
                            cx: x(run.bytes),
                            cy: y(run.seconds),
                            r: 4,
                            fill: colourOf(run.algorithm)
                          },
                              svg("title", {},
                                  `${run.algorithm}, ${bytes(run.bytes)}: ${
                                      seconds(run.seconds)}`)))),
          legend(names.map((name) => [colourOf(name), name])),
          table(
              ["algorithm", "at the smallest size", "at the largest", "bus bandwidth there"],
              names.map((name) => {
                const own = lines.get(name), end = own[own.length - 1];
                return [
                  name, number(`${name}:first`, own[0].seconds, seconds(own[0].seconds)),
                  number(`${name}:last`, end.seconds, seconds(end.seconds)),
                  `${(end.bus_bandwidth / 1e9).toFixed(1)} GB/s`
                ];
              })),
          html(
              "p", {}, "Dots: the fastest at that size. ",
              answer.skipped.length ?
                  `Left out: ${
                          [...new Map(answer.skipped.map((one) => [one.algorithm, one])).values()]
                              .map((one) => `${one.algorithm} (${one.reason})`)
                              .join("; ")}.` :
                  ""));
    },
  };
})();
