#include "common/nn/hooks.hpp"

#include <utility>

namespace ultra::nn {
namespace {

using Around = std::function<void(const PartCall&)> PartHook::*;

/// The first part within its hooks from number `next` on, and in there the other parts.
void nest(const std::vector<std::weak_ptr<const PartHook>>& hooks, Around pass, Range parts,
          std::size_t next, const std::function<void()>& compute) {
  if (parts.size() == 0) return compute();
  for (; next < hooks.size(); ++next) {
    const auto hook = hooks[next].lock();
    if (!hook || !((*hook).*pass)) continue;
    const std::function<void()> inner = [&] { nest(hooks, pass, parts, next + 1, compute); };
    return ((*hook).*pass)({.part = parts.begin, .compute = inner});
  }
  nest(hooks, pass, {parts.begin + 1, parts.end}, 0, compute);
}

}  // namespace

HookHandle PartHooks::add(PartHook hook) {
  auto added = std::make_shared<const PartHook>(std::move(hook));
  hooks_.push_back(added);
  return added;
}

void PartHooks::forward(const Range& parts, const std::function<void()>& compute) const {
  nest(hooks_, &PartHook::forward, parts, 0, compute);
}

void PartHooks::backward(const Range& parts, const std::function<void()>& compute) const {
  nest(hooks_, &PartHook::backward, parts, 0, compute);
}

}  // namespace ultra::nn
