#pragma once
/// @file
/// --step-through: a recorded step, rank by rank and part by part, as text or JSON.

#include <memory>
#include <string>
#include <vector>

#include "chapters/11_five_d/stepper/rank_story.hpp"
#include "common/base/json.hpp"
#include "common/train/cli/run_techniques.hpp"

namespace ultra::stepper {

/// @brief The rounds as lines: what ranks do, those together that do the same, and what has been sent.
[[nodiscard]] std::string to_text(const std::vector<RankStory>& stories,
                                  const std::vector<Round>& rounds);

/// @brief {"seq", "global_batch", "ranks": [a story each], "rounds": [[index of a deed or null]]}:
/// bytes, and ranges as [begin, end].
[[nodiscard]] Json to_json(const train::Setup& setup, const std::vector<RankStory>& stories,
                           const std::vector<Round>& rounds);

/// @brief The flags --step-through and --step-through-json as a technique.
/// @param techniques  of the program, this one among them: a second time, with --on.
[[nodiscard]] std::unique_ptr<train::Technique> technique(train::MakeTechniques techniques);

}  // namespace ultra::stepper
