#include "chapters/10_mixed_precision/training/rounded_sums.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "chapters/10_mixed_precision/training/half_arithmetic.hpp"
#include "chapters/10_mixed_precision/training/rounded_attention.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/comm/collectives/reduce_op.hpp"
#include "common/comm/engine/tensor_bytes.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/tensor/philox.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::mixed_precision {
namespace {

template <HalfScalar T>
float reciprocal_rms(std::span<const T> x, double epsilon) {
  float sum = 0;
  for (const T each : x) {
    const auto value = static_cast<float>(each);
    sum = rounded<T>(sum + rounded<T>(value * value));
  }
  const float mean = rounded<T>(sum / static_cast<float>(x.size()));
  return rounded<T>(1.0F / std::sqrt(mean + static_cast<float>(epsilon)));
}

/// A norm of the inner kind, with another mean square.
class RoundedNorm : public nn::Layer {
 public:
  RoundedNorm(std::unique_ptr<nn::Layer> norm, double epsilon)
      : norm_(std::move(norm)), epsilon_(epsilon) {}

  Tensor forward(const Tensor& x, nn::Saved& saved) override {
    const Tensor y = norm_->forward(x, saved);
    const Tensor reciprocals = Tensor::empty(x.device(), {x.numel() / x.size(-1)}, DType::kF32);
    with_half(x.dtype(), [&]<class T>() { normalise<T>(x, y, reciprocals.span<float>()); });
    if (saved.has("reciprocal_rms")) {
      saved.put("reciprocal_rms", reciprocals.view(saved.get("reciprocal_rms").shape()));
    }
    saved.remakeable(y, [this, x] {
      nn::Saved nothing(nn::Saved::Mode::kDiscard);
      return forward(x, nothing);
    });
    return y;
  }

  Tensor backward(const Tensor& d_y, nn::Saved& saved) override {
    return norm_->backward(d_y, saved);
  }
  std::vector<nn::Parameter*> parameters() override { return norm_->parameters(); }

 private:
  template <HalfScalar T>
  void normalise(const Tensor& x, const Tensor& y, std::span<float> reciprocals) const {
    const std::size_t hidden = x.size(-1);
    const Tensor weight = cast(norm_->parameters().front()->value(), DType::kF32);
    for (std::size_t token = 0; token < reciprocals.size(); ++token) {
      const std::span<const T> in = x.span<T>().subspan(token * hidden, hidden);
      reciprocals[token] = reciprocal_rms<T>(in, epsilon_);
      for (std::size_t i = 0; i < hidden; ++i) {
        y.span<T>()[token * hidden + i] =
            round_to<T>(static_cast<float>(in[i]) * reciprocals[token] * weight.span<float>()[i]);
      }
    }
  }

  std::unique_ptr<nn::Layer> norm_;
  double epsilon_;
};

/// The loss of a token, whose logits become their gradient.
template <HalfScalar T>
float loss_of(std::span<T> logits, std::size_t target, double normalizer) {
  float most = static_cast<float>(logits[0]);
  for (const T each : logits) most = std::max(most, static_cast<float>(each));
  float sum = 0;
  for (const T each : logits) {
    sum = rounded<T>(sum + rounded<T>(std::exp(static_cast<float>(each) - most)));
  }
  const float log_sum = rounded<T>(most + rounded<T>(std::log(sum)));
  const float loss = rounded<T>(log_sum - static_cast<float>(logits[target]));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float share = rounded<T>(std::exp(static_cast<float>(logits[i]) - log_sum));
    logits[i] = round_to<T>((share - (i == target ? 1.0F : 0.0F)) / static_cast<float>(normalizer));
  }
  return loss;
}

class RoundedLoss : public nn::LossLayer {
 public:
  double forward(const Tensor& logits, const Tensor& targets, double normalizer,
                 nn::Saved& saved) override {
    const double loss = with_half(logits.dtype(), [&]<class T>() {
      return sum_of<T>(logits.span<T>(), targets.span<std::int32_t>(), normalizer);
    });
    saved.put("d_logits", logits);
    return loss;
  }
  Tensor backward(nn::Saved& saved) override { return saved.take("d_logits"); }

 private:
  template <HalfScalar T>
  static double sum_of(std::span<T> logits, std::span<const std::int32_t> targets,
                       double normalizer) {
    const std::size_t vocab = targets.empty() ? 0 : logits.size() / targets.size();
    double sum = 0;
    for (std::size_t token = 0; token < targets.size(); ++token) {
      const std::span<T> row = logits.subspan(token * vocab, vocab);
      if (targets[token] == ops::kNoTarget) {
        std::ranges::fill(row, round_to<T>(0.0F));
      } else {
        sum += double{loss_of(row, static_cast<std::size_t>(targets[token]), normalizer)};
      }
    }
    return sum / normalizer;
  }
};

constexpr std::size_t kElements = 1024;

/// The gradient of one micro-batch.
Tensor gradient(std::size_t micro_batch, DType dtype, const PhiloxStream& noise) {
  const Tensor wide = Tensor::empty(Device::cpu(), {kElements}, DType::kF32);
  for (std::size_t i = 0; i < kElements; ++i) {
    wide.data<float>()[i] = static_cast<float>(1.0 + noise.normal(micro_batch * kElements + i));
  }
  return cast(wide, dtype);
}

void add(const Tensor& sum, const Tensor& term) {
  comm::combine({.dtype = sum.dtype(), .op = ReduceOp::kSum}, comm::bytes_of(sum).data(),
                comm::bytes_of(term).data(), sum.numel());
}

double error_of(const Tensor& sum, const std::vector<double>& exact) {
  const std::vector<double> found = cast(sum, DType::kF32).to_vector();
  double squares = 0;
  double length = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    squares += (found[i] - exact[i]) * (found[i] - exact[i]);
    length += exact[i] * exact[i];
  }
  return std::sqrt(squares / length);
}

}  // namespace

std::string RoundedSums::str() const {
  std::vector<std::string_view> names;
  if (norms) names.emplace_back("norms");
  if (loss) names.emplace_back("loss");
  if (softmax) names.emplace_back("softmax");
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ","));
}

RoundedSums parse_rounded_sums(std::string_view text) {
  RoundedSums sums;
  for (const std::string_view name : split(text, ',')) {
    if (name == "norms") {
      sums.norms = true;
    } else if (name == "loss") {
      sums.loss = true;
    } else if (name == "softmax") {
      sums.softmax = true;
    } else {
      throw ConfigError(fmt::format(
          "--round-sums is {}: {} is no sum that it knows. It takes norms, loss and softmax, or "
          "several with commas between them: norms,loss.",
          in_quotes(text), in_quotes(name)));
    }
  }
  return sums;
}

std::unique_ptr<nn::Layer> RoundedSumsFactory::norm(const nn::BuildContext& context,
                                                    const nn::NormSpec& spec) {
  std::unique_ptr<nn::Layer> norm = inner().norm(context, spec);
  if (!sums_.norms) return norm;
  return std::make_unique<RoundedNorm>(std::move(norm), context.config.norm_epsilon);
}

std::unique_ptr<nn::AttentionCore> RoundedSumsFactory::attention_core(
    const nn::BuildContext& context) {
  std::unique_ptr<nn::AttentionCore> core = inner().attention_core(context);
  if (!sums_.softmax) return core;
  return rounded_attention(std::move(core), context);
}

std::unique_ptr<nn::LossLayer> RoundedSumsFactory::loss(const nn::BuildContext& context) {
  if (!sums_.loss) return inner().loss(context);
  return std::make_unique<RoundedLoss>();
}

SumDrift sum_drift(std::size_t micro_batches, DType dtype, std::uint64_t seed) {
  const PhiloxStream noise(seed, "gradients of micro-batches");
  const Tensor half = Tensor::zeros(Device::cpu(), {kElements}, dtype);
  const Tensor wide = Tensor::zeros(Device::cpu(), {kElements}, DType::kF32);
  std::vector<double> exact(kElements, 0.0);
  for (std::size_t i = 0; i < micro_batches; ++i) {
    const Tensor term = gradient(i, dtype, noise);
    const Tensor same = cast(term, DType::kF32);
    add(half, term);
    add(wide, same);
    const std::vector<double> values = same.to_vector();
    for (std::size_t k = 0; k < kElements; ++k) exact[k] += values[k];
  }
  return {.micro_batches = micro_batches,
          .rounded_each = error_of(half, exact),
          .rounded_once = error_of(cast(wide, dtype), exact)};
}

std::string sum_drift_table(std::uint64_t seed) {
  std::string table =
      "Error of a sum of gradients, over its length\n\n"
      "  micro-batches   bf16, rounded each time      once   f16, rounded each time      once\n";
  for (std::size_t n = 1; n <= 1024; n *= 4) {
    const SumDrift bf16 = sum_drift(n, DType::kBF16, seed);
    const SumDrift f16 = sum_drift(n, DType::kF16, seed);
    fmt::format_to(std::back_inserter(table), "  {:>13}{:>26.1e}{:>10.1e}{:>25.1e}{:>10.1e}\n", n,
                   bf16.rounded_each, bf16.rounded_once, f16.rounded_each, f16.rounded_once);
  }
  return table;
}

}  // namespace ultra::mixed_precision
