#include "chapters/11_five_d/planner/search/reasons.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

std::string bytes(double value) { return format_bytes(static_cast<std::uint64_t>(value)); }

double billions_of(const Question& question) {
  constexpr double kBillion = 1e9;
  return parameters_of(question.work.model) / kBillion;
}

std::size_t node_of(const Question& question) {
  return static_cast<std::size_t>(question.cluster.gpus_per_node);
}

/// Speed of the layout on another cluster or batch, beside the one it has.
double gain(Question question, const Prediction& now) {
  if (why_impossible(question.work, now.layout)) return 0;
  return predict(question, now.layout).tokens_per_second / now.tokens_per_second - 1;
}

/// Without advice for more than 100 billion parameters on fewer than 512 GPUs: the Playbook says
/// nothing of them.
Recipe playbook_recipe(const Question& question, const Layout& layout) {
  const double size = billions_of(question);
  const bool sharded = zero::shards_parameters(layout.zero);
  const bool tensor = layout.tp > 1 && layout.tp <= node_of(question);
  Recipe recipe{.source = "Playbook"};
  if (size < 10) {
    recipe.advice =
        "below 10 billion parameters one technique is enough: tp inside the node, or ZeRO-3 with "
        "recomputation";
    const int techniques = (layout.tp > 1) + (layout.pp > 1) + (layout.cp > 1) + sharded;
    recipe.followed = techniques <= 1;
  } else if (layout.gpus() >= 1024) {
    recipe.advice = "from 1,024 GPUs on: tp of a node, pp, and dp with sharded states";
    recipe.followed = tensor && layout.pp > 1 && layout.dp > 1;
  } else if (layout.gpus() >= 512) {
    recipe.advice = "from 512 GPUs on dp alone is slow: tp or pp beside it";
    recipe.followed = layout.tp > 1 || layout.pp > 1;
  } else if (size <= 100) {
    recipe.advice =
        "from 10 to 100 billion parameters: tp of a node with pp, tp of a node with ZeRO-3, or "
        "ZeRO-3 alone";
    recipe.followed = (tensor && layout.pp > 1) || sharded;
  }
  return recipe;
}

/// A model that fits only because layers are sharded or offloaded was not made to fit by tp and pp.
Recipe placement_recipe(const Question& question, const Layout& layout) {
  const bool cut_to_fit =
      !zero::shards_parameters(layout.zero) && !layout.offload && !layout.offload_activations;
  const bool in_order =
      layout.pp == 1 ? layout.tp <= node_of(question) : layout.tp == node_of(question);
  return {.source = "Narayanan et al. 2021",
          .advice = "tp up to the size of a node, then pp until the model fits, then dp",
          .followed = cut_to_fit && in_order};
}

/// Without advice for fewer than 10 billion parameters on several nodes.
Recipe textbook_recipe(const Question& question, const Layout& layout) {
  const double size = billions_of(question);
  const bool data_alone = layout.tp == 1 && layout.pp == 1;
  Recipe recipe{.source = "Textbook"};
  if (size >= 100) {
    recipe.advice = "from 100 billion parameters on: dp, tp and pp";
    recipe.followed = layout.dp > 1 && layout.tp > 1 && layout.pp > 1;
  } else if (size >= 70) {
    recipe.advice = "from 70 billion parameters on, several nodes: ZeRO-3, alone or with tp";
    recipe.followed = zero::shards_parameters(layout.zero) && layout.pp == 1;
  } else if (size >= 10) {
    recipe.advice = "from 10 to 70 billion parameters: dp with ZeRO-2 or ZeRO-3";
    recipe.followed = data_alone && zero::number_of(layout.zero) >= 2;
  } else if (layout.gpus() <= node_of(question)) {
    recipe.advice = "on one node: dp, plain or with ZeRO-2";
    recipe.followed = data_alone && !zero::shards_parameters(layout.zero);
  }
  return recipe;
}

std::string fit_words(const Question& question, const SearchResult& result) {
  const Prediction& first = result.best.front();
  const memory::StateBytes per = memory::bytes_per_parameter(first.layout.precision);
  const double states = parameters_of(question.work.model) * real(per.total());
  const double room = question.cluster.gpu.memory_bytes;
  std::string words =
      fmt::format("Parameters, gradients and optimizer states are {}; a GPU has {}.", bytes(states),
                  bytes(room));
  words += states <= room ? " They fit into one GPU:" : " They must be shared:";
  words += fmt::format(
      " of {} layouts {} are too large, and the smallest tp x pp that fits is {}. The first choice "
      "takes {} of each GPU.",
      result.possible, result.too_large, result.smallest_model_parallel,
      bytes(first.memory.total()));
  return words;
}

std::string batch_words(const Question& question, const Prediction& first) {
  return fmt::format(
      "{} tokens a step are dp {} x micro-batch {} x {} micro-batches of sequences of {} tokens.",
      format_count(static_cast<std::uint64_t>(question.work.tokens())), first.layout.dp,
      first.layout.micro_batch, first.micro_batches, question.work.seq_len);
}

std::string speed_words(const Question& question, const Prediction& first) {
  const TimeShare loss = bottleneck(first);
  const WhatIf best = what_ifs(question, first).front();
  return fmt::format(
      "The step takes {}: {:.1f} % MFU. The largest loss is {}, {:.1f} % of the time; {} would "
      "make the same layout {:.1f} % faster.",
      format_seconds(first.step.total()), kPercent * first.mfu, loss.what,
      kPercent * loss.seconds / first.step.total(), best.change, kPercent * best.gain);
}

}  // namespace

std::vector<TimeShare> time_shares(const Prediction& prediction) {
  const PassSeconds& passes = prediction.passes;
  const StepSeconds& step = prediction.step;
  // What is computed again is products, attention and exchanges too: taken out of each alike.
  const double again = passes.total() > 0 ? prediction.recompute / passes.total() : 0;
  const double once = 1 - again;
  std::vector<TimeShare> shares = {
      {"matrix products", once * passes.products, true},
      {"attention", once * passes.attention, true},
      {"elementwise work", once * passes.elementwise},
      {"tensor-parallel exchanges", once * passes.tensor_exchange},
      {"context-parallel exchanges", once * passes.context_exchange},
      {"exchanges of tokens with experts", once * passes.expert_exchange},
      {"activations to and from the host", once * passes.host_exchange},
      {"recomputation", prediction.recompute},
      {"the pipeline's bubble", step.bubble},
      {"messages between stages", step.messages},
      {"exchanges between replicas", step.data},
      {"the optimizer", step.optimizer},
      {"waiting for the slowest rank", step.stragglers}};
  std::ranges::stable_sort(shares, std::ranges::greater{}, &TimeShare::seconds);
  return shares;
}

TimeShare bottleneck(const Prediction& prediction) {
  for (const TimeShare& share : time_shares(prediction)) {
    if (!share.useful) return share;
  }
  throw InternalError("a step has no losses");
}

namespace {

/// Each change with what it makes of the question.
std::vector<std::pair<const char*, Question>> changes_of(const Question& question) {
  std::vector<std::pair<const char*, Question>> all;
  const auto add = [&](const char* change, const auto& apply) {
    Question changed = question;
    apply(changed);
    all.emplace_back(change, std::move(changed));
  };
  add("twice the network between nodes", [](Question& q) { q.cluster.inter.bandwidth *= 2; });
  add("twice the links inside nodes", [](Question& q) { q.cluster.intra.bandwidth *= 2; });
  add("a tenth more of the peak FLOP/s", [](Question& q) { q.cluster.gpu.peak_flops *= 1.1; });
  add("half as much memory bandwidth again",
      [](Question& q) { q.cluster.gpu.memory_bandwidth *= 1.5; });
  add("twice the global batch", [](Question& q) { q.work.global_batch *= 2; });
  return all;
}

}  // namespace

std::vector<WhatIf> what_ifs(const Question& question, const Prediction& prediction) {
  std::vector<WhatIf> all;
  for (const auto& [change, changed] : changes_of(question)) {
    all.push_back({.change = change, .gain = gain(changed, prediction)});
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &WhatIf::gain);
  return all;
}

std::vector<WhatIf> what_ifs(const Question& question, const SearchSpace& space,
                             const Prediction& prediction) {
  std::vector<WhatIf> all;
  for (const auto& [change, changed] : changes_of(question)) {
    WhatIf one{.change = change, .gain = gain(changed, prediction)};
    one.gain_planned_anew = one.gain;
    for (const Prediction& best : search_layouts(changed, space, 1).best) {
      one.gain_planned_anew = best.tokens_per_second / prediction.tokens_per_second - 1;
      const std::string layout = best.layout.str();
      if (layout != prediction.layout.str()) one.layout = layout;
    }
    all.push_back(std::move(one));
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &WhatIf::gain);
  return all;
}

std::vector<Recipe> recipes(const Question& question, const Layout& layout) {
  std::vector<Recipe> all = {playbook_recipe(question, layout), placement_recipe(question, layout),
                             textbook_recipe(question, layout)};
  std::erase_if(all, [](const Recipe& one) { return one.advice.empty(); });
  return all;
}

DecisionSteps decision_steps(const Question& question, const SearchResult& result) {
  ensure(!result.best.empty(), "a search that found a layout");
  const Prediction& first = result.best.front();
  return {.fit_in_memory = fit_words(question, result),
          .reach_the_batch = batch_words(question, first),
          .make_it_fast = speed_words(question, first)};
}

}  // namespace ultra::planner
