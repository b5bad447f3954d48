#include "chapters/03_data_parallel/compression/compressed_exchange.hpp"

#include <cmath>
#include <utility>

#include "chapters/03_data_parallel/top_k_feedback.hpp"
#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::data_parallel {
namespace {

class CompressedExchange final : public BucketExchange {
 public:
  CompressedExchange(const Communicator& dp, std::shared_ptr<const Compressor> compressor,
                     ErrorFeedback feedback, const BucketContents& contents, const Device& device,
                     DType dtype)
      : dp_(dp.labeled(contents.label())),
        compressor_(std::move(compressor)),
        words_(compressor_->message_words(contents.count, dtype)) {
    if (feedback == ErrorFeedback::kOn) {
      residual_ = Tensor::zeros(device, {contents.count}, dtype, MemoryCategory::kCommunication);
    }
  }

  // [region start]
  void start(const Tensor& bucket) override {
    bucket_ = bucket;
    messages_ = Tensor::empty(bucket.device(), {size() * words_}, DType::kI32,
                              MemoryCategory::kCommunication);
    const Tensor own = message_of(checked_cast<std::size_t>(dp_.rank()));
    if (residual_.defined()) {
      compress_with_feedback(*compressor_, bucket, residual_, own);
    } else {
      compressor_->compress(bucket, own);
    }
    gather_ = dp_.all_gather(own, messages_);
  }
  // [/region]

  // [region finish]
  void finish() override {
    gather_.wait();  // before it, messages_ holds this replica's message alone
    bucket_.fill(0);
    for (std::size_t rank = 0; rank < size(); ++rank) {
      compressor_->add_decompressed(message_of(rank), 1, bucket_);
    }
    bucket_ = Tensor();
    messages_ = Tensor();
  }
  // [/region]

 private:
  [[nodiscard]] std::size_t size() const { return checked_cast<std::size_t>(dp_.size()); }

  [[nodiscard]] Tensor message_of(std::size_t rank) const {
    return messages_.slice(0, {rank * words_, (rank + 1) * words_});
  }

  Communicator dp_;
  std::shared_ptr<const Compressor> compressor_;
  std::size_t words_;  // of one message
  Tensor residual_;    // undefined without error feedback
  Tensor bucket_;      // from start() to finish()
  Tensor messages_;    // of all ranks, in their order; from start() to finish()
  Work gather_;
};

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

class KeptSecondMoment final : public optim::UpdateRule {
 public:
  KeptSecondMoment(int kept_step, optim::Rule adamw, const optim::AdamWConfig& config)
      : kept_step_(kept_step), adamw_(std::move(adamw)), config_(config) {}

  optim::StateSpecs states(optim::WeightKind kind) const override { return adamw_->states(kind); }

  void apply(std::size_t i, const optim::TensorUpdate& update, std::span<const Tensor> states,
             const optim::StepConstants& step) const override {
    if (step.step <= kept_step_) return adamw_->apply(i, update, states, step);
    dispatch_float(update.value.dtype(), [&]<class T>() {
      const HostView<T> weights(update.value, HostAccess::kReadWrite);
      const HostView<const T> gradients(update.grad);
      const HostView<T> first(states[0], HostAccess::kReadWrite);
      const HostView<const T> second(states[1]);
      update_with_kept<T>(weights.span(), gradients.span(), first.span(), second.span(),
                          optim::adamw_step(config_, update.decay, step), kept_step_);
    });
  }

 private:
  int kept_step_;
  optim::Rule adamw_;
  optim::AdamWConfig config_;
};

}  // namespace

MakeBucketExchange compressed_exchange(const Communicator& dp,
                                       std::shared_ptr<const Compressor> compressor,
                                       ErrorFeedback feedback) {
  return [=](const BucketContents& contents, const Device& device, DType dtype) {
    return std::make_unique<CompressedExchange>(dp, compressor, feedback, contents, device, dtype);
  };
}

MakeBucketExchange switch_exchange(std::size_t steps, MakeBucketExchange first,
                                   MakeBucketExchange then) {
  return [=](const BucketContents& contents, const Device& device, DType dtype) {
    return std::make_unique<SwitchExchange>(steps, first(contents, device, dtype),
                                            then(contents, device, dtype));
  };
}

optim::Rule keep_second_moment(std::size_t steps, optim::Rule adamw,
                               const optim::AdamWConfig& config) {
  if (steps == 0) return adamw;
  return std::make_shared<KeptSecondMoment>(checked_cast<int>(steps), std::move(adamw), config);
}

}  // namespace ultra::data_parallel
