#include "chapters/07_pipeline_parallel/schedule/action_names.hpp"

#include <algorithm>

namespace ultra::pipeline_parallel {

std::string_view letters_of(train::ActionKind kind) {
  return std::ranges::find(kActionNames, kind, &ActionName::kind)->letters;
}

std::optional<train::ActionKind> kind_of(std::string_view letters) {
  const auto found = std::ranges::find(kActionNames, letters, &ActionName::letters);
  if (found == kActionNames.end()) return {};
  return found->kind;
}

}  // namespace ultra::pipeline_parallel
