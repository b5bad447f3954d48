// A pipeline's schedule, simulated: every pass of every stage, the bubble, and what is kept.
"use strict";

(() => {
  const {ask, html, svg, number, drawing, widthOf, legend, digits, percent, table} =
      window.workbookTools;
  const FILL = {F: "#3b8fd0", BW: "#e69f00", B: "#e69f00", W: "#57b894", U: "#cc79a7"};
  const NAMES = {
    F: "forward (F)",
    BW: "backward (BW)",
    B: "backward, of inputs (B)",
    W: "backward, of weights (W)",
    U: "update (U)"
  };

  let schedules = [];

  window.workbookFigures.pipeline = {
    // Interleaving has as many forms as there are chunks: two of them stand in the menu.
    prepare: async () => {
      schedules = (await ask("pipeline", {menu: true}))
                      .schedules.flatMap(
                          (name) => name === "interleaved:2" ? [name, "interleaved:4"] : [name]);
    },
    controls: [
      {name: "schedule", label: "Schedule", value: "1f1b", redraws: true, options: () => schedules},
      {name: "stages", label: "Stages p", value: 4, min: 1, max: 16},
      {name: "micro_batches", label: "Micro-batches m", value: 8, min: 1, max: 64},
      {name: "forward", label: "F of a stage", value: 1, min: 0.01, step: 0.5},
      {name: "backward_input", label: "B of a stage", value: 1, min: 0.01, step: 0.5},
      {name: "backward_weight", label: "W of a stage", value: 1, min: 0, step: 0.5},
      {name: "head", label: "Head, in stages", value: 0, min: 0, step: 0.1},
      {name: "latency", label: "Latency of a message", value: 0, min: 0, step: 0.1},
      {name: "message", label: "Time of a message on its link", value: 0, min: 0, step: 0.1},
    ],
    question: (state) => {
      const question = {schedule: state.schedule};
      for (const [name, value] of Object.entries(state))
        if (name !== "schedule") question[name] = Number(value);
      return question;
    },
    draw: (body, answer) => {
      const LEFT = 62, ROW = 30, TOP = 6, BOTTOM = 24;
      const chunkOf = (action) => Math.floor(action.part / answer.stages);
      const passes = answer.actions.length / answer.stages;
      const WIDTH = Math.max(widthOf(body), Math.min(2600, LEFT + passes * 19));
      const scale = (WIDTH - LEFT - 10) / answer.seconds;
      const used = [...new Set(answer.actions.map((action) => action.kind))];
      const label = `${answer.schedule} on ${answer.stages} stages: ${
          digits(answer.seconds, 5)} units of time, bubble ${percent(answer.bubble_over_total)}`;
      const peak = Math.max(...answer.peak_activations) / answer.chunks;
      body.replaceChildren(
          html(
              "p", {class: "headline", "aria-live": "polite"}, "A step takes ",
              number("seconds", answer.seconds, digits(answer.seconds, 6)), ". Bubble: ",
              number(
                  "bubble_over_ideal", answer.bubble_over_ideal, percent(answer.bubble_over_ideal)),
              " of the ideal time, ",
              number(
                  "bubble_over_total", answer.bubble_over_total, percent(answer.bubble_over_total)),
              " of the whole. The fullest stage keeps ", number("peak", peak, digits(peak, 4)),
              " micro-batches."),
          drawing(
              WIDTH, TOP + answer.stages * ROW + BOTTOM, label,
              Array.from(
                  {length: answer.stages},
                  (_, stage) => svg(
                      "g", {},
                      svg("text", {x: LEFT - 8, y: TOP + stage * ROW + 17, "text-anchor": "end"},
                          `stage ${stage}`),
                      svg("rect", {
                        x: LEFT,
                        y: TOP + stage * ROW,
                        width: WIDTH - LEFT - 10,
                        height: ROW - 6,
                        fill: "var(--c-idle)"
                      }))),
              answer.actions.map((action) => {
                const x = LEFT + action.begin * scale, width = (action.end - action.begin) * scale,
                      y = TOP + action.stage * ROW;
                return svg(
                    "g", {},
                    svg("rect", {
                      x,
                      y,
                      width: Math.max(0, width - 0.7),
                      height: ROW - 6,
                      fill: FILL[action.kind] ?? "var(--c-other)",
                      opacity: chunkOf(action) % 2 ? 0.72 : 1
                    },
                        svg("title", {},
                            `${action.kind} of micro-batch ${action.micro_batch}, chunk ${
                                chunkOf(action)}: ${digits(action.begin, 6)} to ${
                                digits(action.end, 6)}`)),
                    width > 13 ? svg("text", {
                      x: x + width / 2,
                      y: y + 16,
                      "text-anchor": "middle",
                      class: "on-light"
                    },
                                     action.micro_batch) :
                                 null);
              }),
              svg("text", {x: LEFT, y: TOP + answer.stages * ROW + 14, class: "quiet"}, "0"),
              svg("text", {
                x: WIDTH - 10,
                y: TOP + answer.stages * ROW + 14,
                "text-anchor": "end",
                class: "quiet"
              },
                  digits(answer.seconds, 6))),
          legend([
            ...used.map((kind) => [FILL[kind] ?? "var(--c-other)", NAMES[kind] ?? kind]),
            ["var(--c-idle)", "bubble"]
          ]),
          table(
              ["stage", ...answer.peak_activations.map((_, stage) => String(stage))],
              [["activations at the peak", ...answer.peak_activations.map(String)]]));
    },
  };
})();
