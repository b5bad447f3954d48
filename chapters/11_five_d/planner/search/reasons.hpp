#pragma once
/// @file
/// Why a layout is the way it is: where its time goes, what holds it back, what would change it, and
/// what the published recipes say.

#include <string>
#include <string_view>
#include <vector>

#include "chapters/11_five_d/planner/search/layout_search.hpp"

namespace ultra::planner {

/// @brief A part of the step.
struct TimeShare {
  std::string_view what;  ///< "matrix products", "bubble of the pipeline", ...
  double seconds = 0;     ///< of the step
  bool useful = false;    ///< the model's own products and attention; everything else is a loss
};

/// @brief All parts of the step, the longest first. They add up to it.
[[nodiscard]] std::vector<TimeShare> time_shares(const Prediction& prediction);

/// @brief The largest part that is not useful.
[[nodiscard]] TimeShare bottleneck(const Prediction& prediction);

/// @brief A change of the cluster, and what the same layout would gain by it, and the best one.
struct WhatIf {
  std::string change;            ///< "twice the network"
  double gain = 0;               ///< of speed, by the same layout: 0.05 is 5 % more
  double gain_planned_anew = 0;  ///< by the layout that is best then
  std::string layout = {};       ///< that one, where it is another
};

/// @brief Twice the network, twice the links inside nodes, a tenth more of the peak, a half more of
/// the memory's bandwidth; twice the batch. The largest gain first.
[[nodiscard]] std::vector<WhatIf> what_ifs(const Question& question, const Prediction& prediction);

/// @brief The same, with what a new plan would gain: one search for each change.
[[nodiscard]] std::vector<WhatIf> what_ifs(const Question& question, const SearchSpace& space,
                                           const Prediction& prediction);

/// @brief A rule of thumb for so large a model on so many GPUs.
struct Recipe {
  std::string source;       ///< who says so
  std::string advice = {};  ///< in words
  bool followed = false;    ///< the layout is one of those it names
};

/// @brief The rules that others have published, as they apply here.
///
/// The Playbook's, by size: up to 10 billion parameters one technique, tp inside the node or ZeRO-3
/// with recomputation; to 100 billion tp 8 with pp, tp 8 with ZeRO-3, or ZeRO-3 alone; from 512 GPUs
/// tp or pp beside dp; from 1,024 tp 8 with ZeRO-2 and pp; sequences that one node cannot hold cp.
/// Narayanan et al.'s: tp before pp, both before dp, and nothing sharded or offloaded to make a model
/// fit. A textbook's, by size: dp on a node; from 10 billion parameters ZeRO-2 or 3, from 70 ZeRO-3
/// with or without tp, from 100 dp, tp and pp. A source that says nothing of a case is not named.
/// Source: the Ultra-Scale Playbook, "Finding the best training configuration"; Narayanan et al.
/// 2021, arXiv 2104.04473, takeaways 1 to 3.
[[nodiscard]] std::vector<Recipe> recipes(const Question& question, const Layout& layout);

/// @brief The Playbook's three steps as they led to a layout: fit in memory, reach the batch, make it
/// fast.
struct DecisionSteps {
  std::string fit_in_memory;    ///< what one GPU would need, what shares it, what is left
  std::string reach_the_batch;  ///< dp x micro-batch x micro-batches
  std::string make_it_fast;     ///< bottleneck, and what would change it
};

/// @brief The steps to the first of a search's layouts.
/// @pre The search found one.
[[nodiscard]] DecisionSteps decision_steps(const Question& question, const SearchResult& result);

}  // namespace ultra::planner
