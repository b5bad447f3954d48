// The planner's time of a layout beside the time of the step that the program records.
//
// Covers: common/train/elsewhere/on_report.hpp

#include "chapters/11_five_d/five_d.hpp"
#include "chapters/11_five_d/planner/model/model_file.hpp"
#include "chapters/11_five_d/planner/time/prediction.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/elsewhere/on_report.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

struct Case {
  std::string model;
  std::size_t seq_len;
  std::size_t global_batch;
  Layout layout;

  [[nodiscard]] std::string flags() const {
    std::string text = fmt::format(
        "--model {} --seq {} --global-batch {} --micro-batch {} --dp {} --pp {} --cp {} --tp {} "
        "--zero {} --on dgx-h100",
        model, seq_len, global_batch, layout.micro_batch, layout.dp, layout.pp, layout.cp,
        layout.tp, static_cast<int>(layout.zero));
    if (layout.copies > 1) text += fmt::format(" --hybrid-shard {}", layout.shard_ranks());
    if (layout.tp > 1) text += layout.sequence_parallel ? " --sp on" : "";
    if (layout.cp > 1) text += fmt::format(" --cp-method {}", name_of(layout.context_method));
    if (layout.recompute == memory::Recompute::kFull) text += " --recompute full";
    if (layout.recompute == memory::Recompute::kSelective) text += " --recompute selective";
    return text;
  }
};

double recorded_seconds(const Case& one) {
  const train::Setup setup =
      train::parse_setup(five_d::techniques(), ultra::test::words_of(one.flags()));
  const train::Machine machine = train::parse_machine("dgx-h100");
  const auto ranks = train::record_ranks(setup, train::ranks_that_differ(setup));
  return train::price(setup, machine.cluster, ranks, replay::Spans::kDropped).seconds;
}

Question question_of(const Case& one) {
  return {.work = {.model = model_for_plan(one.model, {}),
                   .seq_len = one.seq_len,
                   .global_batch = one.global_batch},
          .cluster = *replay::find_cluster("dgx-h100"),
          .software = find_software("workbook")};
}

class RecordedLayouts : public ultra::test::RandomTest {
 protected:
  Case draw() {
    while (true) {
      Case one{.model = random.pick({"llama-1b", "llama-8b", "llama-70b"}),
               .seq_len = std::size_t{1} << random.between(11, 13),
               .global_batch = std::size_t{1} << random.between(5, 8),
               .layout = {}};
      Layout& layout = one.layout;
      layout.dp = std::size_t{1} << random.between(0, 4);
      // Stages of a small model are unequal by its tables, and the program balances them by work.
      layout.pp = one.model == "llama-1b" ? 1 : std::size_t{1} << random.between(0, 2);
      layout.cp = std::size_t{1} << (random.between(0, 2) / 2);
      layout.tp = std::size_t{1} << random.between(0, 3);
      layout.zero = random.pick({zero::ZeroStage::kNone, zero::ZeroStage::kOptimizer});
      layout.recompute = random.pick({memory::Recompute::kNone, memory::Recompute::kFull});
      if (layout.dp * layout.cp == 1) layout.zero = zero::ZeroStage::kNone;
      const bool shared = layout.zero != zero::ZeroStage::kNone && layout.dp * layout.cp > 2;
      if (shared) layout.copies = random.pick({1U, 2U});
      if (!why_impossible(question_of(one).work, layout)) return one;
    }
  }
};

// Both know the machine by one price list. The planner knows the program in closed form; the record is
// the program. So they differ where the form is rough: weights that are gathered tensor by tensor, stages
// that are balanced by their work, exchanges so small that they are latency alone.
TEST_F(RecordedLayouts, TakeAboutAsLongAsPlanned) {
  std::vector<std::pair<double, std::string>> distances;
  for (int trial = 0; trial < 40; ++trial) {
    const Case one = draw();
    const double ratio = recorded_seconds(one) / predict(question_of(one), one.layout).step.total();
    distances.emplace_back(std::abs(ratio - 1), fmt::format("{:.3f} {}", ratio, one.flags()));
  }
  std::ranges::sort(distances);
  EXPECT_LT(distances[20].first, 0.1) << distances[20].second;
  EXPECT_LT(distances[34].first, 0.25) << distances[34].second;
}

}  // namespace
}  // namespace ultra::planner
