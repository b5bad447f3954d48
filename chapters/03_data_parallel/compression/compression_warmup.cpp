#include "chapters/03_data_parallel/compression/compression_warmup.hpp"

#include <cmath>
#include <utility>

#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::data_parallel {
namespace {

class SwitchExchange final : public BucketExchange {
 public:
  SwitchExchange(std::size_t steps, std::unique_ptr<BucketExchange> first,
                 std::unique_ptr<BucketExchange> then)
      : steps_left_(steps), first_(std::move(first)), then_(std::move(then)) {}

  void start(const Tensor& bucket) override { now().start(bucket); }

  void finish() override {
    now().finish();
    if (steps_left_ > 0) --steps_left_;
  }

 private:
  [[nodiscard]] BucketExchange& now() const { return steps_left_ > 0 ? *first_ : *then_; }

  std::size_t steps_left_;  // with first_
  std::unique_ptr<BucketExchange> first_;
  std::unique_ptr<BucketExchange> then_;
};

/// AdamW whose second moment is that of step `kept_step`.
template <class T>
void update_with_kept(std::span<T> value, std::span<const T> grad, std::span<T> first_moment,
                      std::span<const T> second_moment, const ops::AdamWStep& constants,
                      int kept_step) {
  const T beta1 = static_cast<T>(constants.beta1);
  const T correction1 = static_cast<T>(1.0 - std::pow(constants.beta1, constants.step));
  const T correction2 = static_cast<T>(1.0 - std::pow(constants.beta2, kept_step));
  const T learning_rate = static_cast<T>(constants.learning_rate);
  const T weight_decay = static_cast<T>(constants.weight_decay);
  const T epsilon = static_cast<T>(constants.epsilon);
  const T scale = static_cast<T>(constants.gradient_scale);
  for (std::size_t i = 0; i < value.size(); ++i) {
    T& m = first_moment[i];
    m = beta1 * m + (T(1) - beta1) * scale * grad[i];
    const T direction = (m / correction1) / (std::sqrt(second_moment[i] / correction2) + epsilon);
    value[i] -= learning_rate * (direction + weight_decay * value[i]);
  }
}

}  // namespace

MakeBucketExchange switch_exchange(std::size_t steps, MakeBucketExchange first,
                                   MakeBucketExchange then) {
  return [=](const BucketContents& contents, const Device& device, DType dtype) {
    return std::make_unique<SwitchExchange>(steps, first(contents, device, dtype),
                                            then(contents, device, dtype));
  };
}

optim::AdamWUpdate keep_second_moment(std::size_t steps, optim::AdamWUpdate update) {
  if (steps == 0) return update;
  return [kept_step = checked_cast<int>(steps), update = std::move(update)](
             const Tensor& value, const Tensor& grad, const Tensor& first_moment,
             const Tensor& second_moment, const ops::AdamWStep& constants) {
    if (constants.step <= kept_step) {
      return update(value, grad, first_moment, second_moment, constants);
    }
    dispatch_float(value.dtype(), [&]<class T>() {
      const HostView<T> weights(value, HostAccess::kReadWrite);
      const HostView<const T> gradients(grad);
      const HostView<T> first(first_moment, HostAccess::kReadWrite);
      const HostView<const T> second(second_moment);
      update_with_kept<T>(weights.span(), gradients.span(), first.span(), second.span(), constants,
                          kept_step);
    });
  };
}

}  // namespace ultra::data_parallel
