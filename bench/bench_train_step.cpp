/// Model FLOPs per second of whole training steps (forward, backward, clipping, AdamW) over the rate
/// of a plain matrix product, measured side by side on one thread: the median over the steps.
///
/// FLOPs per token are counted as usual (Kaplan et al. 2020; PaLM, app. B): 6 N for the N weights of
/// the matrix products and 12 L h s for attention over all positions. `of_sgemm_causal` counts attention's
/// visible half only: the stricter figure.
///
/// `--device cuda`, with --model, --precision and others (--device cuda --help), measures the whole
/// trainer on a GPU instead: device_training.hpp.

#include <benchmark/benchmark.h>
#include <cblas.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "bench/benchmark_model.hpp"
#include "bench/device_training.hpp"
#include "bench/timing.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"
#include "common/ops/matmul.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/clip.hpp"
#include "common/optim/optimizer.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;

/// The rate of products of two 1024 x 1024 f32 matrices, over about as long as a step takes: on a
/// shared machine the clock changes from second to second, so each step is compared with the
/// products right before and right after it.
class SgemmRate {
 public:
  /// FLOP/s of ten products in a row.
  [[nodiscard]] double measure() const {
    constexpr int kProducts = 10;
    const double start = now();
    for (int i = 0; i < kProducts; ++i) {
      ops::matmul_into(c_, a_, ops::Transpose::kNo, b_, ops::Transpose::kYes);
    }
    return kProducts * 2.0 * kSize * kSize * kSize / (now() - start);
  }

 private:
  static constexpr std::size_t kSize = 1024;
  Device device_ = Device::cpu();
  Tensor a_ = Tensor::zeros(device_, {kSize, kSize}, DType::kF32);
  Tensor b_ = Tensor::zeros(device_, {kSize, kSize}, DType::kF32);
  Tensor c_ = Tensor::zeros(device_, {kSize, kSize}, DType::kF32);
};

struct Flops {
  double full;
  double causal;
};

Flops flops_per_step(const nn::ModelConfig& c, std::size_t weights, std::size_t tokens) {
  const double t = static_cast<double>(tokens);
  const double attention = 12.0 * static_cast<double>(c.num_layers * c.hidden_size) *
                           static_cast<double>(c.max_seq_len) * t;
  const double products = 6.0 * static_cast<double>(weights - c.vocab_size * c.hidden_size) * t;
  return {products + attention, products + attention / 2.0};
}

void train_step(benchmark::State& state) {
  const nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  constexpr std::size_t kSequences = 4;
  const Device device = Device::cpu();
  nn::DenseFactory factory;
  nn::Model model(config, device, DType::kF32, 1, factory);
  const data::Dataset text = bench::benchmark_text();
  const data::Sampler sampler(text, config.max_seq_len, kSequences, 1);
  const data::Batch batch = sampler.batch(device, 0, {0, kSequences});
  optim::Optimizer optimizer(optim::adamw());

  const SgemmRate sgemm;
  const auto step = [&] {
    nn::Saved saved;
    const Tensor logits = model.forward(batch.tokens, saved);
    benchmark::DoNotOptimize(
        model.loss(logits, batch.targets, static_cast<double>(sampler.global_tokens()), saved));
    model.backward(saved);
    std::vector<Tensor> grads;
    std::vector<optim::TensorUpdate> updates;
    for (nn::Parameter* p : model.parameters()) {
      grads.push_back(p->grad());
      updates.push_back({p->value(), p->grad(), p->value().shape().rank() > 1});
    }
    optimizer.step(updates, 1e-4, optim::clip_coefficient(optim::global_norm(grads), 1.0));
    updates.clear();
    grads.clear();
    model.drop_grads();
  };
  for (int i = 0; i < 2; ++i) step();

  const Flops flops = flops_per_step(config, model.parameter_count(), sampler.global_tokens());
  std::vector<double> step_seconds;
  std::vector<double> rates;
  std::vector<double> shares;
  double before = sgemm.measure();
  for (auto _ : state) {
    const double start = now();
    step();
    step_seconds.push_back(now() - start);
    state.PauseTiming();
    const double after = sgemm.measure();
    rates.push_back((before + after) / 2.0);
    shares.push_back(flops.full / step_seconds.back() / rates.back());
    before = after;
    state.ResumeTiming();
  }
  const double share = median(shares);
  state.counters["sgemm_GFLOPs"] = median(rates) / 1e9;
  state.counters["of_sgemm"] = share;
  state.counters["of_sgemm_causal"] = share * flops.causal / flops.full;
  state.counters["tokens_per_s"] =
      static_cast<double>(sampler.global_tokens()) / median(step_seconds);
}
BENCHMARK(train_step)->Arg(384)->Arg(512)->Unit(benchmark::kMillisecond)->MinTime(8.0);

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--device")) {
      return ultra::bench::run_device_training(argc, argv);
    }
  }
  const char* forced = std::getenv("OPENBLAS_CORETYPE");
  std::printf("OpenBLAS kernels: %s%s, %d thread(s)\n", openblas_get_corename(),
              forced != nullptr ? " (by OPENBLAS_CORETYPE)" : "", openblas_get_num_threads());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
