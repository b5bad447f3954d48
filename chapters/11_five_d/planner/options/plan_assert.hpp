#pragma once
/// @file
/// What a script asserts of a plan: --plan-assert.

#include <string>

#include "chapters/11_five_d/planner/search/layout_search.hpp"

namespace ultra::planner {

/// @brief A training whose cost may be asserted.
struct AssertedTraining {
  double tokens = 0;  ///< of all steps; 0: nothing can be said of it
  double price = 0;   ///< dollars for an hour of a GPU; 0: unknown
};

/// @brief Checks the fastest layout of a plan.
/// @param text  comparisons with commas between them: "seconds<14,memory_gb<=75"; empty: none.
/// @throws ConfigError for what is no comparison, or of something that is not known.
/// @throws NotAsAsserted when one is false, or no layout fits.
void expect_as_asserted(const std::string& text, const Question& question,
                        const SearchResult& result, const AssertedTraining& training);

}  // namespace ultra::planner
