/// Products and training steps in bf16, f16 and fp8, as ratios to f32 on the same thread, side by side:
/// the clock of a shared machine changes from second to second.
///
/// `of_sgemm` is a product's rate over that of a plain f32 product of the same extents;
/// `of_sgemm_peak` over that of f32 matrices of 1024 x 1024. `of_f32_step` is a training step's rate
/// over that of the same step in f32; `of_peak` the rate of its linear maps' products (attention's are
/// left out) over that of matrices of 1024 x 1024 in the type that it multiplies in, and `f32_of_peak`
/// the same of the step in f32. `of_copy` is a conversion's rate, bytes read and written, over that of
/// copying memory.

#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "chapters/10_mixed_precision/fp8/fp8_factory.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"
#include "common/ops/adamw.hpp"
#include "common/ops/matmul.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;
using ops::Transpose;

/// A product of a training's linear map: forward, input gradient, or weight gradient.
struct Product {
  std::size_t m;
  std::size_t n;
  std::size_t k;
  Transpose transpose_a;
  Transpose transpose_b;
  DType out;  ///< weight gradients are f32

  [[nodiscard]] double flops() const { return 2.0 * static_cast<double>(m * n * k); }
};

class Operands {
 public:
  Operands(const Product& p, DType dtype, DType out)
      : product_(p),
        a_(Tensor::zeros(device_, order(p.m, p.k, p.transpose_a), dtype)),
        b_(Tensor::zeros(device_, order(p.k, p.n, p.transpose_b), dtype)),
        out_(Tensor::zeros(device_, {p.m, p.n}, out)) {}

  /// FLOP/s of some products in a row, for about ten milliseconds.
  [[nodiscard]] double rate() const {
    const int products = 1 + static_cast<int>(1e9 / product_.flops());
    const double start = now();
    for (int i = 0; i < products; ++i) {
      ops::matmul_into(out_, a_, product_.transpose_a, b_, product_.transpose_b);
    }
    return products * product_.flops() / (now() - start);
  }

 private:
  static Shape order(std::size_t rows, std::size_t columns, Transpose transpose) {
    return transpose == Transpose::kNo ? Shape{rows, columns} : Shape{columns, rows};
  }

  Product product_;
  Device device_ = Device::cpu();
  Tensor a_;
  Tensor b_;
  Tensor out_;
};

DType dtype_of(const benchmark::State& state) {
  return state.range(0) == 0 ? DType::kBF16 : DType::kF16;
}

/// The products of one linear map [tokens, in] -> [tokens, out]; which: forward, d_x, d_weight.
Product product_of(const benchmark::State& state) {
  const auto tokens = static_cast<std::size_t>(state.range(1));
  const auto in = static_cast<std::size_t>(state.range(2));
  const auto out = static_cast<std::size_t>(state.range(3));
  switch (state.range(4)) {
    case 0:
      return {tokens, out, in, Transpose::kNo, Transpose::kYes, dtype_of(state)};
    case 1:
      return {tokens, in, out, Transpose::kNo, Transpose::kNo, dtype_of(state)};
    default:
      return {out, in, tokens, Transpose::kYes, Transpose::kNo, DType::kF32};
  }
}

void product(benchmark::State& state) {
  const Product p = product_of(state);
  const Operands half(p, dtype_of(state), p.out);
  const Operands single(p, DType::kF32, DType::kF32);
  const Operands peak({1024, 1024, 1024, Transpose::kNo, Transpose::kYes, DType::kF32}, DType::kF32,
                      DType::kF32);
  static_cast<void>(half.rate());
  std::vector<double> rates;
  std::vector<double> of_sgemm;
  std::vector<double> of_peak;
  for (auto _ : state) {
    const double sgemm = single.rate();
    const double highest = peak.rate();
    rates.push_back(half.rate());
    of_sgemm.push_back(rates.back() / sgemm);
    of_peak.push_back(rates.back() / highest);
  }
  state.counters["GFLOPs"] = median(rates) / 1e9;
  state.counters["of_sgemm"] = median(of_sgemm);
  state.counters["of_sgemm_peak"] = median(of_peak);
}
BENCHMARK(product)
    ->ArgNames({"f16", "tokens", "in", "out", "pass"})
    ->ArgsProduct({{0}, {1024}, {128, 512}, {384, 1408}, {0, 1, 2}})
    ->ArgsProduct({{1}, {1024}, {512}, {1408}, {0, 1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MinTime(0.5);

/// FLOP/s of a large product.
double peak_rate(DType dtype) {
  const Product large{1024, 1024, 1024, Transpose::kNo, Transpose::kYes, dtype};
  return Operands(large, dtype, dtype).rate();
}

/// A model with master weights in f32, trained in `precision`; in fp8 where a scope is given.
class Training {
 public:
  Training(std::size_t hidden, const nn::Precision& precision,
           std::optional<mixed_precision::Fp8Scope> fp8 = {})
      : config_(bench::benchmark_model(hidden)),
        fp8_(fp8 ? std::make_unique<mixed_precision::Fp8Factory>(dense_, *fp8) : nullptr),
        model_(config_, device_, precision, 1,
               fp8_ ? static_cast<nn::LayerFactory&>(*fp8_) : dense_),
        text_(bench::benchmark_text()),
        sampler_(text_, config_.max_seq_len, 4, 1),
        batch_(sampler_.batch(device_, 0, {0, 4})) {
    for (const nn::Parameter* p : model_.parameters()) {
      masters_.push_back(cast(p->value(), DType::kF32, MemoryCategory::kOptimizer));
      for (auto* moments : {&first_, &second_}) {
        moments->push_back(Tensor::zeros(device_, p->shape(), DType::kF32));
      }
    }
  }

  /// Floating-point operations of the linear maps for a token: the token table is looked up.
  [[nodiscard]] double flops_per_token() {
    double weights = 0;
    for (const nn::Parameter* p : model_.parameters()) {
      if (p->shape().rank() == 2) weights += static_cast<double>(p->shape().numel());
    }
    return 6 * (weights - static_cast<double>(config_.vocab_size * config_.hidden_size));
  }

  /// Tokens per second of one step.
  double step() {
    const double start = now();
    nn::Saved saved;
    Tensor logits = model_.forward(batch_.tokens, saved);
    benchmark::DoNotOptimize(model_.loss(logits, batch_.targets, tokens(), saved));
    logits = Tensor();
    model_.backward(saved);
    for (std::size_t i = 0; i < masters_.size(); ++i) {
      const nn::Parameter& p = *model_.parameters()[i];
      ops::adamw_into(masters_[i], p.grad(), first_[i], second_[i], {.learning_rate = 1e-4});
      if (!masters_[i].shares_storage(p.value())) cast_into(p.value(), masters_[i]);
    }
    model_.drop_grads();
    return tokens() / (now() - start);
  }

 private:
  [[nodiscard]] double tokens() const { return static_cast<double>(sampler_.global_tokens()); }

  Device device_ = Device::cpu();
  nn::ModelConfig config_;
  nn::DenseFactory dense_;
  std::unique_ptr<mixed_precision::Fp8Factory> fp8_;
  nn::Model model_;
  data::Dataset text_;
  data::Sampler sampler_;
  data::Batch batch_;
  std::vector<Tensor> masters_;
  std::vector<Tensor> first_;
  std::vector<Tensor> second_;
};

enum Numbers { kBf16, kF16, kFp8Tensors, kFp8Tiles };

/// What fp8 layers of a rank without others have to know.
std::optional<mixed_precision::Fp8Scope> scope_of(std::int64_t numbers, const Communicator& alone) {
  if (numbers < kFp8Tensors) return {};
  using mixed_precision::Scaling;
  const Scaling scaling = numbers == kFp8Tiles ? Scaling::kBlockwise : Scaling::kCurrent;
  return mixed_precision::Fp8Scope{
      .recipe = {.scaling = scaling}, .tp = alone, .tokens = alone, .history_copies = {}};
}

void steps_of(benchmark::State& state, const Communicator& alone) {
  nn::Precision precision(state.range(0) == kF16 ? DType::kF16 : DType::kBF16);
  precision.gradients = DType::kF32;
  precision.optimizer = DType::kF32;
  const auto hidden = static_cast<std::size_t>(state.range(1));
  Training half(hidden, precision, scope_of(state.range(0), alone));
  Training single(hidden, DType::kF32);
  for (int i = 0; i < 2; ++i) {
    half.step();
    single.step();
  }
  std::vector<double> rates;
  std::vector<double> shares;
  std::vector<double> of_peak;
  std::vector<double> f32_of_peak;
  for (auto _ : state) {
    const double in_f32 = single.step();
    f32_of_peak.push_back(in_f32 * single.flops_per_token() / peak_rate(DType::kF32));
    rates.push_back(half.step());
    of_peak.push_back(rates.back() * half.flops_per_token() / peak_rate(precision.compute));
    shares.push_back(rates.back() / in_f32);
  }
  state.counters["tokens_per_s"] = median(rates);
  state.counters["of_f32_step"] = median(shares);
  state.counters["of_peak"] = median(of_peak);
  state.counters["f32_of_peak"] = median(f32_of_peak);
}

void train_step(benchmark::State& state) {
  run_ranks(1, [&](Communicator& alone) { steps_of(state, alone); });
}
BENCHMARK(train_step)
    ->ArgNames({"numbers", "hidden"})
    ->ArgsProduct({{kBf16, kF16, kFp8Tensors, kFp8Tiles}, {128, 512}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->MinTime(4.0);

/// Conversions of more numbers than the caches hold.
template <class To, class From>
void conversion(benchmark::State& state) {
  constexpr std::size_t kNumbers = 1 << 25;
  const std::vector<From> from(kNumbers);
  std::vector<To> to(kNumbers);
  std::vector<char> copied(kNumbers * (sizeof(To) + sizeof(From)) / 2);
  const std::vector<char> source(copied.size(), 1);
  std::vector<double> shares;
  for (auto _ : state) {
    double start = now();
    std::memcpy(copied.data(), source.data(), copied.size());
    benchmark::DoNotOptimize(copied.data());
    const double copy = now() - start;
    start = now();
    convert(std::span<const From>(from), std::span<To>(to));
    benchmark::DoNotOptimize(to.data());
    shares.push_back(copy / (now() - start));
  }
  state.counters["of_copy"] = median(shares);
}
BENCHMARK(conversion<BFloat16, float>)->Name("f32 to bf16")->MinTime(0.5);
BENCHMARK(conversion<float, BFloat16>)->Name("bf16 to f32")->MinTime(0.5);
BENCHMARK(conversion<Float16, float>)->Name("f32 to f16")->MinTime(0.5);
BENCHMARK(conversion<float, Float16>)->Name("f16 to f32")->MinTime(0.5);

}  // namespace

BENCHMARK_MAIN();
