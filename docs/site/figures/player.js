// A collective, played round by round: who sends what to whom, and what every element is made of.
"use strict";

(() => {
  const {html, svg, number, drawing, widthOf, legend, ask} = window.workbookTools;
  let menu = {ops: []};
  const algorithmsOf = (op) =>
      menu.ops.find((entry) => entry.op === op)?.algorithms.map((one) => one.name) ?? ["ring"];
  const COLOURS =
      ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c"];
  const colourOf = (rank) => COLOURS[rank % COLOURS.length];
  const membersOf = (mask, ranks) =>
      Array.from({length: ranks}, (_, r) => r).filter((r) => (mask / 2 ** r) % 2 >= 1);

  const cellOf = (cell, x, y, width, height, ranks, fresh) => {
    if (!cell) return svg("rect", {x, y, width, height, fill: "none", class: "axis"});
    const members = membersOf(cell[1], ranks);
    const part = height / members.length;
    return svg(
        "g", {},
        members.map(
            (rank, i) =>
                svg("rect", {x, y: y + i * part, width, height: part + 0.3, fill: colourOf(rank)})),
        svg("rect", {
          x,
          y,
          width,
          height,
          fill: "none",
          stroke: fresh ? "var(--ink)" : "var(--raised)",
          "stroke-width": fresh ? 2.5 : 1
        }),
        svg("title", {},
            `element ${cell[0]}: of rank${members.length > 1 ? "s" : ""} ${members.join(", ")}`));
  };

  const drawState = (answer, step, room) => {
    const {ranks, elements} = answer;
    const round = step > 0 ? answer.rounds[step - 1] : null;
    const data = round ? round.data : answer.at_first;
    const cell = Math.max(16, Math.min(44, Math.floor(420 / Math.max(elements, 1))));
    const rowHeight = Math.max(26, Math.min(46, Math.floor(420 / ranks)));
    const LEFT = 62, ARROWS = 190, top = 22;
    const width = Math.max(Math.min(640, room), LEFT + elements * cell + ARROWS + 20);
    const height = top + ranks * rowHeight + 12;
    const middle = (rank) => top + rank * rowHeight + rowHeight / 2 - 3;
    const fresh = data.map(() => new Set());
    for (const message of round?.messages ?? []) {
      if (message.into_data)
        for (let e = message.into[0]; e < message.into[1]; e += 1) fresh[message.to].add(e);
    }
    const arrows = (round?.messages ?? []).map((message) => {
      const x = LEFT + elements * cell + 12;
      const y1 = middle(message.from) - 4, y2 = middle(message.to) + 4;
      const bend = Math.min(150, 26 + 16 * Math.abs(message.to - message.from));
      return svg(
          "path", {
            d: `M${x} ${y1} C${x + bend} ${y1} ${x + bend} ${y2} ${x} ${y2}`,
            fill: "none",
            stroke: colourOf(message.from),
            "stroke-width": 2,
            "marker-end": "url(#arrow)",
            "stroke-dasharray": message.reduces ? null : "5 3"
          },
          svg("title", {},
              `rank ${message.from} sends elements ${message.elements[0]} to ${
                  message.elements[1] -
                  1} to rank ${message.to}${message.reduces ? ", which adds them" : ""}`));
    });
    const label = step === 0 ? "What each rank has at first" :
                               `After round ${step}: ${round.messages.length} messages`;
    return drawing(
        width, height, label,
        svg("defs", {},
            svg("marker", {
              id: "arrow",
              viewBox: "0 0 8 8",
              refX: 7,
              refY: 4,
              markerWidth: 6,
              markerHeight: 6,
              orient: "auto"
            },
                svg("path", {d: "M0 0L8 4L0 8z", fill: "var(--ink)"}))),
        svg("text", {x: LEFT, y: 13, class: "quiet"}, "elements"),
        data.map(
            (cells, rank) =>
                svg("g", {},
                    svg("text", {x: LEFT - 8, y: middle(rank) + 4, "text-anchor": "end"},
                        `rank ${rank}`),
                    cells.map(
                        (one, e) => cellOf(
                            one, LEFT + e * cell, top + rank * rowHeight, cell - 2, rowHeight - 8,
                            ranks, fresh[rank].has(e))))),
        arrows);
  };

  let playing = null;
  const stop = () => {
    clearInterval(playing);
    playing = null;
  };

  window.workbookFigures.player = {
    prepare: async () => {
      menu = await ask("collectives", {figure: "menu"});
    },
    controls: [
      {
        name: "op",
        label: "Operation",
        value: "all_reduce",
        redraws: true,
        options: () => menu.ops.map((entry) => entry.op).filter((op) => op !== "barrier"),
        then: (state) => algorithmsOf(state.op).includes(state.algorithm) ?
            {} :
            {algorithm: algorithmsOf(state.op)[0]}
      },
      {
        name: "algorithm",
        label: "Algorithm",
        value: "ring",
        redraws: true,
        options: (state) => algorithmsOf(state.op)
      },
      {
        name: "ranks",
        label: "Ranks P",
        value: 4,
        min: 1,
        max: 16,
        then: (state) => ({elements: state.ranks}),
        redraws: true
      },
      {name: "elements", label: "Elements", value: 4, min: 1, max: 64},
      {
        name: "nodes",
        label: "Nodes",
        value: 1,
        min: 1,
        max: 16,
        when: (state) => state.algorithm === "two-level"
      },
      {
        name: "segments",
        label: "Segments (0: by size)",
        value: 0,
        min: 0,
        max: 8,
        when: (state) => ["segmented-ring", "double-tree"].includes(state.algorithm)
      },
    ],
    question: (state) => ({
      figure: "player",
      op: state.op,
      algorithm: state.algorithm,
      ranks: Number(state.ranks),
      elements: Number(state.elements),
      nodes: Number(state.nodes),
      segments: Number(state.segments)
    }),
    draw: (body, answer) => {
      stop();
      const last = answer.rounds.length;
      let step = 0;
      const picture = html("div");
      const words = html("p", {class: "headline", "aria-live": "polite"});
      const slider = html("input", {
        type: "range",
        min: 0,
        max: last,
        value: 0,
        "aria-label": "Round",
        oninput: () => {
          stop();
          show(Number(slider.value));
        }
      });
      const play = html("button", {
        type: "button",
        onclick: () => {
          if (playing) {
            stop();
            show(step);
            return;
          }
          if (step === last) show(0);
          playing = setInterval(() => {
            if (step < last) show(step + 1);
            if (step >= last) {
              stop();
              show(step);
            }
          }, 900);
          show(step);
        }
      });
      const show = (to) => {
        step = Math.max(0, Math.min(last, to));
        slider.value = step;
        play.textContent = playing ? "Pause" : "Play";
        picture.replaceChildren(drawState(answer, step, widthOf(body)));
        const messages = step ? answer.rounds[step - 1].messages : [];
        const moved =
            messages.reduce((sum, message) => sum + message.elements[1] - message.elements[0], 0);
        words.textContent = step === 0 ?
            `At first. The algorithm: ${answer.summary}.` :
            `Round ${step} of ${last}: ${messages.length} message${
                messages.length === 1 ? "" : "s"}, ${moved} element${moved === 1 ? "" : "s"}.`;
      };
      const sent =
          answer.rounds.flatMap((round) => round.messages)
              .reduce((sum, message) => sum + message.elements[1] - message.elements[0], 0);
      body.replaceChildren(
          words,
          html(
              "div", {class: "transport"}, play,
              html(
                  "button", {
                    type: "button",
                    onclick: () => {
                      stop();
                      show(step - 1);
                    }
                  },
                  "Back"),
              html(
                  "button", {
                    type: "button",
                    onclick: () => {
                      stop();
                      show(step + 1);
                    }
                  },
                  "Next"),
              slider),
          picture,
          legend(Array.from({length: answer.ranks}, (_, rank) => [colourOf(rank), `rank ${rank}`])),
          html(
              "p", {}, number("rounds", last, last), " rounds, ",
              number(
                  "messages", answer.rounds.reduce((sum, round) => sum + round.messages.length, 0),
                  answer.rounds.reduce((sum, round) => sum + round.messages.length, 0)),
              " messages, ", number("sent_elements", sent, sent),
              " elements sent by all ranks together. Arrows: who sends to whom; solid where the message is added to what is there, dashed where it replaces it. The stripes of an element are the ranks whose contributions are in it; framed: arrived in this round."));
      show(0);
    },
  };
})();
