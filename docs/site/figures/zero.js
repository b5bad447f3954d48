// ZeRO: what a rank keeps with each stage; and a micro-batch with prefetched weights.
"use strict";

(() => {
  const {html, svg, number, drawing, widthOf, legend, bytes, count, digits, percent, table} =
      window.workbookTools;
  const STATES = ["parameters", "gradients", "optimizer"];
  const GPU = 80e9;

  window.workbookFigures.stages = {
    controls: [
      {name: "billions", label: "Parameters (billions)", value: 7.5, min: 0.000001, step: 0.5},
      {
        name: "ranks",
        label: "Ranks N",
        value: 64,
        min: 1,
        max: 100000,
        then: (state) => ({node_size: state.ranks}),
        redraws: true
      },
      {name: "node_size", label: "Ranks that share one copy S", value: 64, min: 1},
      {name: "micro_batches", label: "Micro-batches per rank m", value: 1, min: 1},
      {
        name: "precision",
        label: "Precision",
        value: "bf16-mixed",
        options: ["bf16-mixed", "bf16-mixed-fp32grads", "fp32", "fp64"]
      },
    ],
    question: (state) => ({
      figure: "stages",
      parameters: Math.round(Number(state.billions) * 1e9),
      ranks: Number(state.ranks),
      node_size: Number(state.node_size),
      micro_batches: Number(state.micro_batches),
      precision: state.precision
    }),
    draw: (body, answer, state) => {
      const WIDTH = widthOf(body), ROW = 44, LEFT = 70, TOP = 24;
      const most = Math.max(GPU, ...answer.stages.map((stage) => stage.bytes.total));
      const scale = (WIDTH - LEFT - 90) / most;
      const parameters = Math.round(Number(state.billions) * 1e9);
      const fits = answer.stages.find((stage) => stage.fits_80gb_gpu);
      body.replaceChildren(
          html(
              "p", {class: "headline", "aria-live": "polite"},
              fits ?
                  (fits.stage === 0 ? "The states fit into 80 GB without sharding." :
                                      `The states fit into 80 GB per rank from ${fits.name} on.`) :
                                      "With no stage do the states fit into 80 GB per rank."),
          drawing(
              WIDTH, TOP + 4 * ROW + 6,
              answer.stages.map((stage) => `${stage.name}: ${bytes(stage.bytes.total)} per rank`)
                  .join("; "),
              answer.stages.map((stage, i) => {
                let x = LEFT;
                const y = TOP + i * ROW;
                return svg(
                    "g", {},
                    svg("text", {x: LEFT - 8, y: y + 20, "text-anchor": "end"}, stage.name),
                    STATES.map((name) => {
                      const width = stage.bytes[name] * scale;
                      const bar =
                          svg("rect", {x, y, width, height: ROW - 14, fill: `var(--c-${name})`},
                              svg("title", {}, `${name}: ${bytes(stage.bytes[name])}`));
                      x += width;
                      return bar;
                    }),
                    svg("text", {x: x + 8, y: y + 20}, bytes(stage.bytes.total)));
              }),
              svg("line", {
                x1: LEFT + GPU * scale,
                x2: LEFT + GPU * scale,
                y1: 16,
                y2: TOP + 4 * ROW,
                class: "limit",
                "stroke-dasharray": "4 3"
              }),
              svg("text", {x: LEFT + GPU * scale, y: 11, "text-anchor": "middle", class: "quiet"},
                  "80 GB")),
          legend(STATES.map(
              (name) => [`var(--c-${name})`, name === "optimizer" ? "optimizer states" : name])),
          table(
              ["stage", "kept per rank", "sent per rank and step", "80 GB hold"],
              answer.stages.map(
                  (stage) =>
                      [stage.name,
                       number(`total_${stage.stage}`, stage.bytes.total, bytes(stage.bytes.total)),
                       number(
                           `sent_${stage.stage}`, stage.sent_elements.total,
                           `${digits(stage.sent_elements.total / parameters, 4)} P elements`),
                       number(
                           `largest_${stage.stage}`, stage.largest_model_80gb,
                           `${count(stage.largest_model_80gb)} parameters`)])));
    },
  };

  const ROWS = {forward: 0, backward: 0, gather: 1, reduce: 1};
  const FILL = {
    forward: "var(--c-parameters)",
    backward: "var(--c-optimizer)",
    gather: "var(--c-communication)",
    reduce: "var(--c-gradients)"
  };

  window.workbookFigures.prefetch = {
    controls: [
      {name: "units", label: "Units", value: 6, min: 1, max: 64},
      {name: "ahead", label: "Units ahead", value: 1, min: 0, max: 8},
      {name: "forward", label: "Forward (ms)", value: 2, min: 0, step: 0.5},
      {name: "backward", label: "Backward (ms)", value: 4, min: 0, step: 0.5},
      {name: "gather", label: "All-gather (ms)", value: 1.5, min: 0, step: 0.5},
      {name: "reduce", label: "Reduce-scatter (ms)", value: 1.5, min: 0, step: 0.5},
      {name: "keep", label: "Keep weights until backward", type: "checkbox", value: 0},
    ],
    question: (state) => ({
      figure: "timeline",
      units: Number(state.units),
      ahead: Number(state.ahead),
      forward: Number(state.forward),
      backward: Number(state.backward),
      gather: Number(state.gather),
      reduce: Number(state.reduce),
      keep: state.keep === "1"
    }),
    draw: (body, answer) => {
      const LEFT = 54, ROW = 46, TOP = 8;
      const end = Math.max(1e-9, ...answer.spans.map((span) => span.end));
      const WIDTH = Math.max(widthOf(body), Math.min(1600, answer.spans.length * 22));
      const scale = (WIDTH - LEFT - 10) / end;
      const share = answer.exposed / Math.max(answer.compute + answer.exposed, 1e-12);
      body.replaceChildren(
          html(
              "p", {class: "headline", "aria-live": "polite"}, "Computing ",
              number("compute", answer.compute, `${digits(answer.compute, 5)} ms`),
              ", waiting for the link ",
              number("exposed", answer.exposed, `${digits(answer.exposed, 5)} ms`),
              `: ${percent(share)} of the time is exposed.`),
          drawing(
              WIDTH, TOP + 2 * ROW + 26,
              `A micro-batch on a rank and on its link, ${digits(end, 5)} ms`,
              ["rank", "link"].map(
                  (name, i) =>
                      svg("g", {}, svg("rect", {
                            x: LEFT,
                            y: TOP + i * ROW,
                            width: WIDTH - LEFT - 10,
                            height: ROW - 12,
                            fill: "var(--code)"
                          }),
                          svg("text", {x: LEFT - 8, y: TOP + i * ROW + 22, "text-anchor": "end"},
                              name))),
              answer.spans.map((span) => {
                const x = LEFT + span.begin * scale, width = (span.end - span.begin) * scale;
                const y = TOP + ROWS[span.work] * ROW;
                return svg(
                    "g", {},
                    svg("rect", {
                      x,
                      y,
                      width: Math.max(0, width - 1),
                      height: ROW - 12,
                      fill: FILL[span.work]
                    },
                        svg("title", {},
                            `${span.work} of unit ${span.unit}: ${digits(span.begin, 5)} to ${
                                digits(span.end, 5)} ms`)),
                    width > 14 ? svg("text", {
                      x: x + width / 2,
                      y: y + 22,
                      "text-anchor": "middle",
                      class: span.work === "forward" ? "on" : "on-light"
                    },
                                     span.unit) :
                                 null);
              }),
              svg("text", {x: LEFT, y: TOP + 2 * ROW + 16, class: "quiet"}, "0"),
              svg("text",
                  {x: WIDTH - 10, y: TOP + 2 * ROW + 16, "text-anchor": "end", class: "quiet"},
                  `${digits(end, 5)} ms`)),
          legend([
            [FILL.forward, "forward"], [FILL.backward, "backward"],
            [FILL.gather, "all-gather of weights"], [FILL.reduce, "reduce-scatter of gradients"]
          ]));
    },
  };
})();
