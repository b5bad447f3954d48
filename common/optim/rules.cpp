#include "common/optim/rules.hpp"

#include <algorithm>
#include <array>

#include "common/base/errors.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/muon.hpp"
#include "common/optim/sgd.hpp"

namespace ultra::optim {
namespace {

struct NamedRule {
  std::string_view name;
  Rule (*make)();
};

constexpr std::array kRules = {
    NamedRule{kDefaultRule, [] { return adamw(); }},
    NamedRule{"sgd", [] { return sgd(); }},
    NamedRule{"muon", [] { return muon(adamw()); }},
};

}  // namespace

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const NamedRule& rule : kRules) names.emplace_back(rule.name);
  return names;
}

Rule make_rule(std::string_view name) {
  const auto found = std::ranges::find(kRules, name, &NamedRule::name);
  ensure(found != kRules.end(), "the name of a rule");
  return found->make();
}

std::size_t states_per_weight(std::string_view name, WeightKind kind) {
  return make_rule(name)->states(kind).size();
}

bool needs_whole_matrices(std::string_view name) {
  return make_rule(name)->needs_whole(WeightKind::kMatrix);
}

}  // namespace ultra::optim
