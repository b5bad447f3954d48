#pragma once
/// @file
/// Hooks: what others do when a pass runs through a part of a model, or a gradient is made.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "common/tensor/shape.hpp"

namespace ultra::nn {

/// What was added is called until its handle is gone. It does not matter which of the two, the
/// handle or what it was added to, ends first.
using HookHandle = std::shared_ptr<const void>;

/// @brief A pass through a part of a model, about to run.
struct PartCall {
  std::size_t part;                      ///< as Model::parts() has them
  const std::function<void()>& compute;  ///< runs it, and the hooks that were added later
};

/// @brief What stands around the passes of each part: it calls compute(), once. Empty functions are
/// left out.
///
/// A block that is recomputed runs its forward pass, and the hook around it, again within backward.
/// Parts that compute together, those of a head, stand one within the other.
struct PartHook {
  std::function<void(const PartCall&)> forward = {};   ///< around forward passes
  std::function<void(const PartCall&)> backward = {};  ///< around backward passes
};

/// @brief The hooks of a model: they nest, the first one outermost.
class PartHooks {
 public:
  /// @brief From now on `hook` stands around the passes.
  [[nodiscard]] HookHandle add(PartHook hook);

  /// @brief Computes the forward pass of parts, within their hooks.
  void forward(const Range& parts, const std::function<void()>& compute) const;
  /// @brief Computes the backward pass of parts, within their hooks.
  void backward(const Range& parts, const std::function<void()>& compute) const;

 private:
  std::vector<std::weak_ptr<const PartHook>> hooks_;
};

}  // namespace ultra::nn
