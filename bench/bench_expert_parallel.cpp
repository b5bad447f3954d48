// What grouped products gain over a loop of separate ones, and lose against one dense product: the
// SwiGLUs of many experts, forward and backward, on rows that stand expert by expert. One BLAS
// thread.
//
// Each round measures the ceiling (one dense SwiGLU of the same products), the variant, and the
// ceiling again, because these machines are noisy.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/timing.hpp"
#include "chapters/08_expert_parallel/moe/experts.hpp"
#include "chapters/08_expert_parallel/token_permutation.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/layers/feed_forward.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;
using expert_parallel::Experts;

constexpr std::size_t kHidden = 256;
constexpr std::size_t kFfn = 512;

/// Who gets how many of the rows.
enum class Skew {
  kEven,     // each expert as many
  kHalving,  // each expert half as many as the one before
};

std::vector<std::size_t> deal_out(std::size_t rows, std::size_t experts, Skew skew) {
  std::vector<std::size_t> counts(experts, skew == Skew::kEven ? rows / experts : 0);
  if (skew == Skew::kEven) return counts;
  std::size_t left = rows;
  for (std::size_t e = 0; e + 1 < experts; ++e) {
    counts[e] = left / 2;
    left -= counts[e];
  }
  counts.back() = left;
  return counts;
}

nn::ModelConfig model() {
  nn::ModelConfig config;
  config.hidden_size = kHidden;
  config.ffn_hidden_size = kFfn;
  return config;
}

/// Rows, their tokens, and experts for them.
class Case {
 public:
  Case(std::size_t rows, std::size_t experts, Skew skew)
      : counts_(deal_out(rows, experts, skew)),
        grouped_(context_, 0, {.num_experts = experts, .expert_ffn = kFfn},
                 {.experts = {0, experts}, .data_group = "data"}),
        dense_(context_, 0),
        tokens_(Tensor::empty(device_, {rows, kHidden}, DType::kF32)) {
    tokens_.fill(0.01);
    // Token t is row (7 t) mod rows: an expert's tokens stand anywhere.
    order_ = {.tokens = rows, .top_k = 1, .choices = {}, .rows_per_expert = counts_};
    for (std::size_t row = 0; row < rows; ++row) order_.choices.push_back(7 * row % rows);
    for (std::size_t e = 0; e < experts; ++e) {
      separate_.push_back(
          std::make_unique<nn::SwigluFeedForward>(context_, "expert" + std::to_string(e), kFfn));
    }
  }

  /// One permutation there, one back, and each product for all experts in one call.
  void grouped() {
    nn::Saved saved;
    const Tensor y = expert_parallel::from_expert_order(
        grouped_.forward(to_rows(tokens_, order_), counts_, saved), Tensor(), order_);
    benchmark::DoNotOptimize(grouped_.backward(to_rows(y, order_), counts_, saved));
  }

  /// Each expert by itself: its rows picked out, its layers, its rows put back.
  void separate() {
    std::size_t begin = 0;
    for (std::size_t e = 0; e < separate_.size(); ++e) {
      const Range rows{begin, begin + counts_[e]};
      begin = rows.end;
      if (rows.size() == 0) continue;
      expert_parallel::ExpertOrder own{.tokens = order_.tokens,
                                       .top_k = 1,
                                       .choices = {order_.choices.begin() + at(rows.begin),
                                                   order_.choices.begin() + at(rows.end)},
                                       .rows_per_expert = {rows.size()}};
      nn::Saved saved;
      const Tensor out = separate_[e]->forward(to_rows(tokens_, own).view(batch(rows)), saved);
      const Tensor back =
          expert_parallel::from_expert_order(out.view({rows.size(), kHidden}), Tensor(), own);
      benchmark::DoNotOptimize(separate_[e]->backward(to_rows(back, own).view(batch(rows)), saved));
    }
  }

  /// All rows through one SwiGLU: as many products, in three calls.
  void dense() {
    nn::Saved saved;
    const Tensor y = dense_.forward(tokens_.view({1, tokens_.size(0), kHidden}), saved);
    benchmark::DoNotOptimize(dense_.backward(y, saved));
  }

 private:
  static std::ptrdiff_t at(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }
  static Shape batch(Range rows) { return {1, rows.size(), kHidden}; }
  static Tensor to_rows(const Tensor& x, const expert_parallel::ExpertOrder& order) {
    return expert_parallel::to_expert_order(x, Tensor(), order);
  }

  Device device_ = Device::cpu();
  nn::ModelConfig config_ = model();
  nn::DenseFactory factory_;
  nn::BuildContext context_{config_, device_, DType::kF32, 1, nullptr, factory_};
  std::vector<std::size_t> counts_;
  Experts grouped_;
  nn::SwigluFeedForward dense_;
  std::vector<std::unique_ptr<nn::Layer>> separate_;
  Tensor tokens_;
  expert_parallel::ExpertOrder order_;
};

double seconds_of(const std::function<void()>& fn) {
  fn();  // warms up
  std::vector<double> seconds;
  for (int i = 0; i < 3; ++i) {
    const double start = now();
    fn();
    seconds.push_back(now() - start);
  }
  return median(seconds);
}

void experts_against_a_dense_product(benchmark::State& state) {
  Case problem(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
               static_cast<Skew>(state.range(2)));
  std::vector<double> grouped;
  std::vector<double> separate;
  for (auto _ : state) {
    const double before = seconds_of([&] { problem.dense(); });
    const double in_groups = seconds_of([&] { problem.grouped(); });
    const double one_by_one = seconds_of([&] { problem.separate(); });
    const double dense = (before + seconds_of([&] { problem.dense(); })) / 2;
    grouped.push_back(dense / in_groups);
    separate.push_back(dense / one_by_one);
  }
  state.counters["grouped_of_dense"] = median(grouped);
  state.counters["separate_of_dense"] = median(separate);
  state.counters["grouped_over_separate"] = median(grouped) / median(separate);
}
BENCHMARK(experts_against_a_dense_product)
    ->ArgNames({"rows", "experts", "halving"})
    ->ArgsProduct({{256, 2048}, {8, 64}, {0, 1}})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
