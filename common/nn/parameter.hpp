#pragma once
/// @file
/// Parameter: a weight, or one rank's shard of it, with its gradient.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/nn/hooks.hpp"
#include "common/nn/precision.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::nn {

/// @brief How a parameter's elements start.
struct Initializer {
  double standard_deviation = 0.0;  ///< of mean-zero normal numbers; 0 means `constant` instead
  double constant = 0.0;            ///< every element, when standard_deviation is 0
};

/// @brief What a parameter is, before it has memory.
struct ParameterSpec {
  std::string name;          ///< unique in the model; Hugging Face's Llama names
  Shape global_shape;        ///< of the whole weight
  std::vector<Range> shard;  ///< index range per dimension held here; empty means all of it
  Initializer initializer;   ///< how the elements start
  std::size_t padding = 0;   ///< rows of zeros after the shard's, which belong to no weight: they
                             ///< give shards of different sizes the same shape
};

/// @brief The element types of a parameter.
struct ParameterTypes {
  DType value;     ///< of the weights that passes compute with
  DType gradient;  ///< of their gradient

  /// @brief Both the same.
  constexpr ParameterTypes(DType both)  // NOLINT(google-explicit-constructor)
      : value(both), gradient(both) {}
  /// @brief Those of a training's parameters.
  constexpr ParameterTypes(const Precision& precision)  // NOLINT(google-explicit-constructor)
      : value(precision.parameters), gradient(precision.gradients) {}
};

/// @brief How gradients relate that several ranks compute for the same elements.
enum class CopyGradients {
  kEqual,   ///< each has the whole gradient (replicated)
  kPartial  ///< they add up to it (partial)
};

/// @brief Ranks that hold the same elements of a parameter, along one way in which a model is
/// replicated.
///
/// A group is what its name says, never its size: two groups of two ranks are two groups. The
/// groups of a parameter are disjoint factors: with the data group, their product is all ranks that
/// hold it.
struct Replication {
  std::string group;  ///< which ranks: the name of their group in the run's plan
  int size = 1;       ///< how many
  int index = 0;      ///< which of them this one is
  CopyGradients gradients = CopyGradients::kEqual;  ///< what each computes

  bool operator==(const Replication&) const = default;
};

/// The data group of parameters that say nothing else: the ranks that compute with the same weights
/// on other tokens.
inline constexpr std::string_view kDataGroup = "data";

/// The data group of what every rank keeps as a whole and no gradient changes: this rank alone.
inline constexpr std::string_view kLocalGroup = "local";

/// @brief Whether a parameter has memory for its values from the start.
enum class Values {
  kAllocated,  ///< yes, and they are initialised
  kDeferred,   ///< no: whoever shards the weights says later where they stand
  kNever,      ///< never: only names and shapes are asked for, of all ranks' parameters
};

/// @brief Work that writes a gradient, or adds to it.
using GradientWork = std::function<void(const Tensor& grad, ops::Write write)>;

/// @brief Weight-gradient work that was put off, in order.
///
/// A zero-bubble pipeline sends the input gradient on first and fills its bubbles with this work.
class DeferredGradients {
 public:
  /// @brief Adds work to the end.
  void push(std::function<void()> work) { work_.push_back(std::move(work)); }

  /// @brief Pieces of work that wait.
  [[nodiscard]] std::size_t size() const { return work_.size(); }

  /// @brief Keeps what waiting work reads until that is done.
  void keep(const Tensor& tensor) { kept_.push_back(tensor); }

  /// @brief Counts what is kept as activations: the pass that put the work off has ended.
  void pass_ends() const;

  /// @brief Does all waiting work, first in first out, and lets go of what was kept for it.
  void run();

 private:
  std::vector<std::function<void()>> work_;
  std::vector<Tensor> kept_;
};

/// @brief A weight or a shard of it.
///
/// Initial values depend on (seed, name, global element index) alone, so that every way to split a
/// weight starts from the same numbers without communication.
class Parameter {
 public:
  /// Called after each addition to the gradient.
  using GradReadyHook = std::function<void(Parameter&)>;

  /// @brief Allocates and initialises the shard that the spec names, unless `values` defers that.
  /// @throws ShapeError when the shard does not fit the global shape.
  Parameter(ParameterSpec spec, const Device& device, ParameterTypes types, std::uint64_t seed,
            Values values = Values::kAllocated);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  /// @brief Unique name in the model.
  [[nodiscard]] const std::string& name() const { return spec_.name; }
  /// @brief Shape of the whole weight.
  [[nodiscard]] const Shape& global_shape() const { return spec_.global_shape; }
  /// @brief Index range of each dimension that this rank holds.
  [[nodiscard]] const std::vector<Range>& shard() const { return spec_.shard; }

  /// @brief Extents of the shard, with the padding.
  [[nodiscard]] const Shape& shape() const { return shape_; }
  /// @brief Elements of the shard, with the padding.
  [[nodiscard]] std::size_t count() const { return shape_.numel(); }
  /// @brief Elements of the shard that belong to the weight: the first ones; padding follows.
  [[nodiscard]] std::size_t own_count() const;

  /// @brief The groups of ranks that hold these elements too, except for the data group.
  [[nodiscard]] const std::vector<Replication>& replications() const { return replications_; }
  /// @brief Says that a group of ranks holds these elements: whoever splits the model does. A group
  /// of one rank does not count.
  /// @throws InternalError when the group is named already.
  void replicate(const Replication& replication);
  /// @brief Whether this rank is the first in each of these groups: what is counted or written
  /// once, for all who hold it, is the owner's.
  [[nodiscard]] bool is_owner() const;

  /// @brief The ranks among which gradients of other tokens are shares of the same sum.
  [[nodiscard]] const std::string& data_group() const { return data_group_; }
  /// @brief Names another data group than kDataGroup.
  void set_data_group(std::string group) { data_group_ = std::move(group); }

  /// @brief Whether a backward pass may leave this parameter out: it then adds nothing to the
  /// gradient.
  [[nodiscard]] bool may_be_idle() const { return may_be_idle_; }
  /// @brief Allows that: for weights of which some tokens have no use.
  void allow_idle() { may_be_idle_ = true; }

  /// @brief Whether nothing trains it: it has no gradient and no optimizer's states, and stays what it is.
  [[nodiscard]] bool is_frozen() const { return is_frozen_; }
  /// @brief Freezes it: work on its gradient is not done from now on.
  void freeze() { is_frozen_ = true; }
  /// @brief Element type of the values.
  [[nodiscard]] DType dtype() const { return types_.value; }
  /// @brief Element type of the gradient.
  [[nodiscard]] DType grad_dtype() const { return types_.gradient; }
  /// @brief Where values and gradient live.
  [[nodiscard]] const Device& device() const { return device_; }

  /// @brief The weight's shard.
  /// @throws InternalError with the parameter's name when the values are not here: deferred, or
  /// released by drop_value().
  [[nodiscard]] const Tensor& value() const;
  /// @brief Whether the values are here.
  [[nodiscard]] bool has_value() const { return value_.defined(); }
  /// @brief Lets another tensor hold the values from now on.
  /// @throws ShapeError when it does not have the shard's shape and dtype.
  void set_value(const Tensor& value);
  /// @brief Lets go of the values; whoever calls it has them, or can fetch them.
  void drop_value() { value_ = Tensor(); }

  /// @brief Writes the values that elements [first, first + out.numel()) of the shard start with,
  /// row-major.
  /// @throws ShapeError when shard and padding do not have that many elements.
  void initial_values_into(const Tensor& out, std::size_t first = 0) const;

  /// @brief The gradient; undefined until the first addition after construction or drop_grad().
  [[nodiscard]] const Tensor& grad() const { return grad_; }
  /// @brief Lets go of the gradient; the next addition starts a fresh one.
  void drop_grad() { grad_ = Tensor(); }

  /// @brief Lets `allocate` say where gradients stand, until its handle is gone or another says it.
  ///
  /// The first addition to the gradient after construction or drop_grad() is written to the tensor
  /// that `allocate` returns, over what stands there, instead of fresh memory. So a view of a
  /// larger buffer, at any place in it, can hold the gradient. A gradient that is there already
  /// stays.
  /// @param allocate  returns a contiguous tensor of the shard's shape and of grad_dtype(); for
  /// another shape or dtype the addition throws ShapeError.
  [[nodiscard]] HookHandle allocate_grad_by(std::function<Tensor()> allocate);

  /// @brief Runs `work` on the gradient now, or puts it off while a queue is set.
  ///
  /// The first work after drop_grad() overwrites, later work accumulates. The hooks run after it. Of a
  /// frozen parameter there is no gradient, and nothing runs.
  void add_grad(GradientWork work);

  /// @brief Calls `hook` each time work on the gradient has been done, once per micro-batch, until
  /// its handle is gone.
  [[nodiscard]] HookHandle on_grad_ready(GradReadyHook hook);

  /// @brief Puts work on the gradient off to `queue`; a null pointer ends that.
  void defer_grads_to(DeferredGradients* queue) { queue_ = queue; }

  /// @brief Says that work on the gradient reads `tensor`: a queue keeps it until the work is done.
  void keep_for_grad(const Tensor& tensor) const {
    if (queue_ != nullptr && !is_frozen_) queue_->keep(tensor);
  }

 private:
  void run(const GradientWork& work);
  [[nodiscard]] Tensor fresh_grad() const;

  ParameterSpec spec_;
  Shape shape_;
  Device device_;
  ParameterTypes types_;
  std::uint64_t seed_;
  std::vector<Replication> replications_;
  std::string data_group_{kDataGroup};
  bool may_be_idle_ = false;
  bool is_frozen_ = false;
  Tensor value_;
  Tensor grad_;
  std::weak_ptr<const std::function<Tensor()>> allocate_grad_;  // gone: fresh memory
  std::vector<std::weak_ptr<const GradReadyHook>> hooks_;
  DeferredGradients* queue_ = nullptr;
};

/// @brief Adds to the gradient of a linear map's weight, y = x W^T: d_W += d_y^T x.
/// @param d_y  [..., out_features], and
/// @param x    [..., in_features]: kept until the gradient is made, which may be much later.
void add_matmul_grad(Parameter& weight, const Tensor& d_y, const Tensor& x);

}  // namespace ultra::nn
