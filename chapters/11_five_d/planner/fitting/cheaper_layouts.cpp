#include <fmt/format.h>

#include <array>

#include "chapters/11_five_d/planner/fit.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

using memory::Recompute;
using zero::ZeroStage;

constexpr std::array<Recompute, 2> kRecomputations = {Recompute::kSelective, Recompute::kFull};

std::vector<ZeroStage> later_stages(const Layout& layout) {
  std::vector<ZeroStage> stages;
  if (layout.dp * layout.cp == 1) return stages;
  for (const ZeroStage stage : zero::kZeroStages) {
    if (stage > layout.zero) stages.push_back(stage);
  }
  return stages;
}

std::vector<Recompute> later_recomputations(const Layout& layout) {
  std::vector<Recompute> modes;
  for (const Recompute mode : kRecomputations) {
    if (mode > layout.recompute) modes.push_back(mode);
  }
  return modes;
}

/// Adds what a change makes of each of some layouts.
template <class Change>
void add_changed(std::vector<Layout>& all, std::vector<Layout> layouts, const Change& change) {
  for (Layout& layout : layouts) {
    change(layout);
    all.push_back(layout);
  }
}

}  // namespace

std::vector<Layout> cheaper_layouts(const Layout& layout) {
  std::vector<Layout> all;
  for (const ZeroStage stage : later_stages(layout)) {
    add_changed(all, {layout}, [&](Layout& one) { one.zero = stage; });
  }
  for (const Recompute mode : later_recomputations(layout)) {
    add_changed(all, {layout}, [&](Layout& one) { one.recompute = mode; });
  }
  for (std::size_t size = layout.micro_batch / 2; size >= 1; size /= 2) {
    add_changed(all, {layout}, [&](Layout& one) { one.micro_batch = size; });
  }
  add_changed(all, {layout}, [](Layout& one) { one.offload = true; });
  std::vector<Layout> combined;
  for (const ZeroStage stage : later_stages(layout)) {
    for (const Recompute mode : later_recomputations(layout)) {
      add_changed(combined, {layout}, [&](Layout& one) {
        one.zero = stage;
        one.recompute = mode;
      });
    }
  }
  if (combined.empty()) combined = {layout};
  all.insert(all.end(), combined.begin(), combined.end());
  add_changed(all, combined, [](Layout& one) { one.micro_batch = 1; });
  add_changed(all, combined, [](Layout& one) {
    one.micro_batch = 1;
    one.offload = true;
  });
  return all;
}

std::string describe(const Fit& fit, const Question& question) {
  const auto bytes = [](double value) { return format_bytes(static_cast<std::size_t>(value)); };
  const std::string needed = fmt::format("needs {} of a GPU's {}", bytes(fit.memory.total()),
                                         bytes(question.cluster.gpu.memory_bytes));
  if (fit.fits) return needed + ".";
  const std::string remedy =
      fit.remedy ? fmt::format("It fits as {}.", fit.remedy->str())
                 : "No recomputation, ZeRO stage, smaller micro-batch or offload is enough: more "
                   "tp or pp, or more GPUs, are needed.";
  return fmt::format("{}; most of it for {}. {}", needed, fit.largest_part, remedy);
}

}  // namespace ultra::planner
