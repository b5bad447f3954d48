#include "common/ops/backend/cpu/onednn/onednn_matmul.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

namespace ultra::ops::cpu::onednn {
namespace {

using dnnl::memory;

/// Below this many multiplications (a cube of 32), converting and calling BLAS costs no more.
constexpr std::size_t kSmallest = 32 * 32 * 32;

/// Kernels that one thread keeps. Extents that change in every step, as experts have them, would
/// otherwise fill the memory.
constexpr std::size_t kMostKernels = 256;

/// A matrix in memory: rows, columns, and how far neighbours of each are apart.
struct Layout {
  memory::dim rows;
  memory::dim columns;
  memory::dim row_step;
  memory::dim column_step;

  auto operator<=>(const Layout&) const = default;
};

Layout layout_of(const Tensor& x, Transpose transpose) {
  const auto rows = static_cast<memory::dim>(x.size(0));
  const auto columns = static_cast<memory::dim>(x.size(1));
  const auto step = std::max(static_cast<memory::dim>(x.strides()[0]), columns);
  if (transpose == Transpose::kNo) return {rows, columns, step, 1};
  return {columns, rows, 1, step};
}

/// All that a kernel is made for.
struct Product {
  Layout a;
  Layout b;
  Layout out;
  bool out_is_f32;
  bool accumulates;

  auto operator<=>(const Product&) const = default;
};

memory::desc description(const Layout& layout, memory::data_type type) {
  return {{layout.rows, layout.columns}, type, {layout.row_step, layout.column_step}};
}

dnnl::matmul::primitive_desc describe(const Product& product, const dnnl::engine& engine) {
  const auto out_type = product.out_is_f32 ? memory::data_type::f32 : memory::data_type::bf16;
  const auto a = description(product.a, memory::data_type::bf16);
  const auto b = description(product.b, memory::data_type::bf16);
  const auto out = description(product.out, out_type);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.accumulates) {
    dnnl::post_ops after;
    after.append_sum(1.0F);
    attributes.set_post_ops(after);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, out, attributes};
#else
  return {dnnl::matmul::desc(a, b, out), attributes, engine};
#endif
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// A kernel, with the handles through which it finds its operands.
class Kernel {
 public:
  Kernel(const Product& product, const dnnl::engine& engine)
      : Kernel(describe(product, engine), engine) {}

  void run(const dnnl::stream& stream, const Device& device, void* out, void* a, void* b) {
    // Its own memory, counted and pooled like all other, instead of the library's.
    const Tensor scratch =
        Tensor::empty(device, {(scratch_bytes_ + 3) / sizeof(std::int32_t)}, DType::kI32);
    arguments_.at(DNNL_ARG_SRC).set_data_handle(a);
    arguments_.at(DNNL_ARG_WEIGHTS).set_data_handle(b);
    arguments_.at(DNNL_ARG_DST).set_data_handle(out);
    arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch.data<std::int32_t>());
    primitive_.execute(stream, arguments_);
  }

 private:
  Kernel(const dnnl::matmul::primitive_desc& described, const dnnl::engine& engine)
      : primitive_(described),
        scratch_bytes_(described.scratchpad_desc().get_size()),
        arguments_{{DNNL_ARG_SRC, memory(described.src_desc(), engine, nullptr)},
                   {DNNL_ARG_WEIGHTS, memory(described.weights_desc(), engine, nullptr)},
                   {DNNL_ARG_DST, memory(described.dst_desc(), engine, nullptr)},
                   {DNNL_ARG_SCRATCHPAD, memory(described.scratchpad_desc(), engine, nullptr)}} {}

  dnnl::matmul primitive_;
  std::size_t scratch_bytes_;
  std::unordered_map<int, memory> arguments_;
};

/// The kernels of one thread: no lock, and no two threads at one kernel's handles.
class Kernels {
 public:
  Kernels() : stream_(cpu_engine()) {
    // One thread per caller, as for OpenBLAS: ranks are threads of ours.
    omp_set_num_threads(1);
  }

  void run(const Product& product, const Device& device, void* out, void* a, void* b) {
    auto found = kernels_.find(product);
    if (found == kernels_.end()) {
      if (kernels_.size() >= kMostKernels) kernels_.clear();
      found = kernels_.emplace(product, Kernel(product, cpu_engine())).first;
    }
    found->second.run(stream_, device, out, a, b);
  }

 private:
  dnnl::stream stream_;
  std::map<Product, Kernel> kernels_;
};

std::size_t depth(const Tensor& a, Transpose transpose_a) {
  return transpose_a == Transpose::kNo ? a.size(1) : a.size(0);
}

}  // namespace

bool is_available() {
  static const bool available = [] {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (isa & needed) == needed;  // an isa has the bits of those that it includes
  }();
  return available;
}

bool multiplies(const Tensor& out, const Tensor& a, Transpose transpose_a) {
  return a.dtype() == DType::kBF16 && out.numel() * depth(a, transpose_a) >= kSmallest &&
         is_available();
}

void matmul(const Tensor& out, const Tensor& a, Transpose transpose_a, const Tensor& b,
            Transpose transpose_b, Write write) {
  thread_local Kernels kernels;
  const bool out_is_f32 = out.dtype() == DType::kF32;
  const Product product{.a = layout_of(a, transpose_a),
                        .b = layout_of(b, transpose_b),
                        .out = layout_of(out, Transpose::kNo),
                        .out_is_f32 = out_is_f32,
                        .accumulates = write == Write::kAccumulate};
  void* const to = out_is_f32 ? static_cast<void*>(out.data<float>()) : out.data<BFloat16>();
  kernels.run(product, out.device(), to, a.data<BFloat16>(), b.data<BFloat16>());
}

}  // namespace ultra::ops::cpu::onednn
