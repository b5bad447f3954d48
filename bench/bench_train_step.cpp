/// Model FLOPs per second of whole training steps (forward, backward, clipping, AdamW) over the
/// matrix product's peak, both measured in this run on one thread.
///
/// FLOPs per token are counted as usual (Kaplan et al. 2020; PaLM, app. B): 6 N for the N weights of
/// the matrix products and 12 L h s for attention over all positions. `causal` counts attention's
/// visible half only: the stricter figure.

#include <benchmark/benchmark.h>
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"
#include "common/ops/matmul.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/clip.hpp"

namespace {

using namespace ultra;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Best of several products of two 1024 x 1024 f32 matrices, in FLOP/s.
double measure_sgemm_peak() {
  constexpr std::size_t kSize = 1024;
  const Device device = Device::cpu();
  const Tensor a = Tensor::zeros(device, {kSize, kSize}, DType::kF32);
  const Tensor b = Tensor::zeros(device, {kSize, kSize}, DType::kF32);
  const Tensor c = Tensor::zeros(device, {kSize, kSize}, DType::kF32);
  double best = 1e9;
  for (int repetition = 0; repetition < 20; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    ops::matmul_into(c, a, ops::Transpose::kNo, b, ops::Transpose::kYes);
    best = std::min(best, seconds_since(start));
  }
  return 2.0 * kSize * kSize * kSize / best;
}

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
  const auto hidden = static_cast<std::size_t>(state.range(0));
  const nn::ModelConfig config{.vocab_size = 256,
                               .hidden_size = hidden,
                               .num_layers = 4,
                               .num_heads = 8,
                               .num_kv_heads = 8,
                               .ffn_hidden_size = hidden * 8 / 3 / 64 * 64,
                               .max_seq_len = 256};
  constexpr std::size_t kSequences = 4;
  const Device device = Device::cpu();
  nn::DenseFactory factory;
  nn::Model model(config, device, DType::kF32, 1, factory);
  std::vector<std::uint8_t> text(1 << 16);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint8_t>(i * i >> 3);
  const data::Dataset dataset(std::move(text), "numbers");
  const data::Sampler sampler(dataset, config.max_seq_len, kSequences, 1);
  const data::Batch batch = sampler.batch(device, 0, {0, kSequences});
  optim::AdamW optimizer({});

  const double peak = measure_sgemm_peak();
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

  double best = 1e9;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    step();
    best = std::min(best, seconds_since(start));
  }
  const Flops flops = flops_per_step(config, model.parameter_count(), sampler.global_tokens());
  state.counters["sgemm_GFLOPs"] = peak / 1e9;
  state.counters["model_GFLOPs"] = flops.full / best / 1e9;
  state.counters["of_sgemm_peak"] = flops.full / best / peak;
  state.counters["of_peak_causal"] = flops.causal / best / peak;
  state.counters["tokens_per_s"] = static_cast<double>(sampler.global_tokens()) / best;
}
BENCHMARK(train_step)->Arg(384)->Arg(512)->Unit(benchmark::kMillisecond)->MinTime(4.0);

}  // namespace

int main(int argc, char** argv) {
  std::printf("OpenBLAS kernels: %s, %d thread(s)\n", openblas_get_corename(),
              openblas_get_num_threads());
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) {
    std::printf(
        "warning: OPENBLAS_CORETYPE forces these kernels; unset it to measure the machine\n");
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
