#pragma once
/// @file
/// Parameters of several modules in one list.

#include <initializer_list>
#include <vector>

#include "common/nn/layer.hpp"

namespace ultra::nn {

/// @brief The parameters of the modules, one after the other; null modules are skipped.
[[nodiscard]] inline std::vector<Parameter*> collect_parameters(
    std::initializer_list<Module*> modules) {
  std::vector<Parameter*> all;
  for (Module* module : modules) {
    if (module == nullptr) continue;
    const std::vector<Parameter*> own = module->parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace ultra::nn
