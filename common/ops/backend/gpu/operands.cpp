#include "common/ops/backend/gpu/operands.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "common/tensor/backend/generic_operands.hpp"
#include "common/tensor/backend/kernels_of.hpp"

namespace ultra::ops::gpu {
namespace {

void* first_of(const Tensor& tensor) {
  if (!tensor.is_contiguous()) {
    throw ShapeError(fmt::format("expected a contiguous tensor, found strides {} of shape {}",
                                 tensor.strides().str(), tensor.shape().str()));
  }
  return tensor.address();
}

void expect_floating(const Tensor& tensor) {
  if (tensor.dtype() == DType::kI32) {
    throw_unexpected_dtype(tensor.dtype(), "f32, f64, bf16 or f16");
  }
}

std::vector<ultra::gpu::Region> regions(std::initializer_list<Tensor> tensors) {
  std::vector<ultra::gpu::Region> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(region_of(tensor));
  return result;
}

}  // namespace

generic::Source source(const Tensor& tensor) {
  expect_floating(tensor);
  return {.number = backend::number_of(tensor.dtype()), .data = first_of(tensor)};
}

generic::Target target(const Tensor& tensor) {
  expect_floating(tensor);
  return {.number = backend::number_of(tensor.dtype()), .data = first_of(tensor)};
}

const std::int32_t* integers(const Tensor& tensor) {
  if (tensor.dtype() != DType::kI32) throw_unexpected_dtype(tensor.dtype(), "i32");
  return static_cast<const std::int32_t*>(first_of(tensor));
}

std::size_t leaf_of(const Device& device, std::size_t length) {
  if (length == 0 || !sums_by_trees(device)) return generic::kOneLeaf;
  return SumTree::of_axis(length).leaf();
}

Tensor partials_of_exact_sum(const Device& device, std::size_t terms) {
  if (!sums_by_trees(device)) return {};
  static_assert(sizeof(std::int64_t) == size_of(DType::kF64));
  return Tensor::empty(device, {generic::partial_sums(terms), ExactSum::kDigits}, DType::kF64);
}

std::int64_t* digits_in(const Tensor& partials) {
  return partials.defined() ? static_cast<std::int64_t*>(partials.address()) : nullptr;
}

KernelLaunch::KernelLaunch(const Device& device, std::string_view operation,
                           const std::vector<ultra::gpu::Region>& reads,
                           const std::vector<ultra::gpu::Region>& writes)
    : kernels_(backend::kernels_of(device)),
      launch_(device.streams(), ultra::gpu::current_role(), operation, reads, writes) {}

KernelLaunch launch(std::string_view operation, std::initializer_list<Tensor> reads,
                    std::initializer_list<Tensor> writes) {
  return {writes.begin()->device(), operation, regions(reads), regions(writes)};
}

Tensor upload(const Device& device, std::span<const std::int32_t> numbers) {
  const Tensor result = Tensor::empty(device, {numbers.size()}, DType::kI32);
  device.streams().upload(ultra::gpu::current_role(), result.address(), numbers.data(),
                          numbers.size_bytes());
  return result;
}

DevicePositions::DevicePositions(const Device& device, std::span<const std::int32_t> positions)
    : positions_(generic::runs_of(positions)) {
  if (positions_.runs > 0 || positions.empty()) return;
  list_ = upload(device, positions);
  positions_.list = static_cast<const std::int32_t*>(list_.address());
}

}  // namespace ultra::ops::gpu
