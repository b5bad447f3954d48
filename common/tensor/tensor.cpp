#include "common/tensor/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/base/errors.hpp"
#include "common/gpu/streams.hpp"
#include "common/tensor/backend/device_copies.hpp"

namespace ultra {

/// Owns one block of a device and keeps the device's counters true.
class Tensor::Storage {
 public:
  Storage(Device device, std::size_t bytes, MemoryCategory category)
      : device_(std::move(device)),
        data_(device_.allocate(bytes, category)),
        bytes_(bytes),
        category_(category),
        is_on_host_(!has_streams(device_.kind())) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() { device_.release(data_, bytes_, category_); }

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] MemoryCategory category() const { return category_; }
  [[nodiscard]] bool is_on_host() const { return is_on_host_; }

  void set_category(MemoryCategory category) {
    if (category == category_) return;
    device_.recategorize(bytes_, category_, category);
    category_ = category;
  }

 private:
  Device device_;
  void* data_;
  std::size_t bytes_;
  MemoryCategory category_;
  bool is_on_host_;
};

namespace {

template <class Fn>
decltype(auto) dispatch_any(DType dtype, Fn&& fn) {
  if (dtype == DType::kI32) return fn.template operator()<std::int32_t>();
  return dispatch_stored(dtype, std::forward<Fn>(fn));
}

/// One element as another type, of all that a tensor can hold.
template <class To, class From>
To element_as(From value) {
  if constexpr (StoredScalar<To> && StoredScalar<From>) {
    return number_as<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void copy_row(const From* from, To* to, std::size_t count) {
  if constexpr (StoredScalar<To> && StoredScalar<From>) {
    convert(std::span<const From>(from, count), std::span<To>(to, count));
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  }
}

/// Calls fn(destination row, source row) for each innermost row of two tensors of one shape.
template <class To, class From, class Fn>
void for_each_row(To* to, const Shape& to_strides, const From* from, const Shape& from_strides,
                  const Shape& shape, std::size_t dim, const Fn& fn) {
  if (dim + 1 >= shape.rank()) {
    fn(to, from);
    return;
  }
  const int d = static_cast<int>(dim);
  for (std::size_t i = 0; i < shape[d]; ++i) {
    for_each_row(to + i * to_strides[d], to_strides, from + i * from_strides[d], from_strides,
                 shape, dim + 1, fn);
  }
}

template <class To, class From>
void copy_elements(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const Shape& shape = to.shape();
  const bool scalar = shape.rank() == 0;
  const std::size_t row = scalar ? 1 : shape[-1];
  const std::size_t to_step = scalar ? 1 : to.strides()[-1];
  const std::size_t from_step = scalar ? 1 : from.strides()[-1];
  for_each_row(to.data<To>(), to.strides(), from.data<From>(), from.strides(), shape, 0,
               [=](To* t, const From* f) {
                 if (to_step == 1 && from_step == 1) {  // the usual case, which vectorises
                   copy_row(f, t, row);
                   return;
                 }
                 for (std::size_t i = 0; i < row; ++i) {
                   t[i * to_step] = element_as<To>(f[i * from_step]);
                 }
               });
}

bool is_on_host(const Tensor& tensor) { return !has_streams(tensor.device().kind()); }

void copy_converted(const Tensor& to, const Tensor& from) {
  if (!is_on_host(to) || !is_on_host(from)) return backend::copy_on_devices(to, from);
  if (from.dtype() == DType::kI32) return copy_elements<std::int32_t, std::int32_t>(to, from);
  dispatch_stored(from.dtype(), [&]<class From>() {
    dispatch_stored(to.dtype(), [&]<class To>() { copy_elements<To, From>(to, from); });
  });
}

void check_converts(DType from, DType to) {
  if (from == to || (from != DType::kI32 && to != DType::kI32)) return;
  throw ShapeError(fmt::format("cannot convert {} to {}", to_string(from), to_string(to)));
}

}  // namespace

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::size_t step = 1;
  for (int d = static_cast<int>(shape.rank()) - 1; d >= 0; --d) {
    strides = strides.with(d, step);
    step *= shape[d];
  }
  return strides;
}

Tensor Tensor::empty(const Device& device, const Shape& shape, DType dtype,
                     MemoryCategory category) {
  Tensor t;
  t.storage_ = std::make_shared<Storage>(device, shape.numel() * size_of(dtype), category);
  t.shape_ = shape;
  t.strides_ = contiguous_strides(shape);
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::zeros(const Device& device, const Shape& shape, DType dtype,
                     MemoryCategory category) {
  Tensor t = empty(device, shape, dtype, category);
  if (t.storage_->is_on_host()) {
    std::memset(t.storage_->data(), 0, t.nbytes());
  } else {
    backend::clear_on_device(t);
  }
  return t;
}

template <class T>
Tensor Tensor::from(const Device& device, const Shape& shape, std::span<const T> values,
                    MemoryCategory category) {
  if (values.size() != shape.numel()) {
    throw ShapeError(fmt::format("shape {} holds {} elements, found {} values", shape.str(),
                                 shape.numel(), values.size()));
  }
  Tensor t = empty(device, shape, dtype_of<T>(), category);
  if (t.storage_->is_on_host()) {
    std::copy(values.begin(), values.end(), t.data<T>());
  } else {
    backend::upload_to_device(t, values.data());
  }
  return t;
}

void Tensor::check_defined() const {
  if (!defined()) throw ShapeError("an undefined tensor was used");
}

void Tensor::check_access(DType asked) const {
  check_defined();
  if (asked != dtype_) {
    throw ShapeError(fmt::format("a tensor {} of {} was accessed as {}", shape_.str(),
                                 to_string(dtype_), to_string(asked)));
  }
}

void Tensor::check_on_host() const {
  if (storage_->is_on_host()) return;
  throw ShapeError(fmt::format(
      "a tensor {} of {} is on {}: the host cannot read it. Use an operation, a HostView or "
      "to(device).",
      shape_.str(), to_string(dtype_), to_string(device().kind())));
}

void Tensor::check_contiguous(const char* operation) const {
  if (!is_contiguous()) {
    throw ShapeError(
        fmt::format("{} needs a contiguous tensor; found shape {} with strides {}. Hint: call "
                    "contiguous() or reshape(), which copy.",
                    operation, shape_.str(), strides_.str()));
  }
}

const Device& Tensor::device() const {
  if (!defined()) throw ShapeError("an undefined tensor has no device");
  return storage_->device();
}

bool Tensor::is_contiguous() const {
  std::size_t expected = 1;
  for (int d = static_cast<int>(shape_.rank()) - 1; d >= 0; --d) {
    if (shape_[d] != 1 && strides_[d] != expected) return false;
    expected *= shape_[d];
  }
  return true;
}

template <class T>
T* Tensor::data() const {
  check_access(dtype_of<T>());
  check_on_host();
  return static_cast<T*>(storage_->data()) + offset_;
}

void* Tensor::address() const {
  check_defined();
  return static_cast<std::byte*>(storage_->data()) + offset_ * size_of(dtype_);
}

template <class T>
std::span<T> Tensor::span() const {
  check_access(dtype_of<T>());
  check_contiguous("span");
  return {data<T>(), numel()};
}

std::vector<double> Tensor::to_vector() const {
  check_defined();
  const Tensor dense = is_on_host(*this) ? contiguous() : to(device().host());
  return dispatch_any(dtype_, [&]<class T>() {
    const std::span<T> values = dense.span<T>();
    std::vector<double> numbers(values.size());
    std::ranges::transform(values, numbers.begin(),
                           [](T value) { return static_cast<double>(value); });
    return numbers;
  });
}

Tensor Tensor::view(const Shape& shape) const {
  check_contiguous("view");
  if (shape.numel() != numel()) {
    throw ShapeError(fmt::format("view {} of a tensor {}: {} elements against {}", shape.str(),
                                 shape_.str(), shape.numel(), numel()));
  }
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_ = contiguous_strides(shape);
  return t;
}

Tensor Tensor::reshape(const Shape& shape) const { return contiguous().view(shape); }

Tensor Tensor::slice(int dim, Range range) const {
  if (range.begin > range.end || range.end > shape_[dim]) {
    throw ShapeError(fmt::format("slice [{}, {}) leaves dimension {} of {}", range.begin, range.end,
                                 dim, shape_.str()));
  }
  Tensor t = *this;
  t.shape_ = shape_.with(dim, range.size());
  t.offset_ += range.begin * strides_[dim];
  return t;
}

Tensor Tensor::transpose(int dim0, int dim1) const {
  Tensor t = *this;
  t.shape_ = shape_.with(dim0, shape_[dim1]).with(dim1, shape_[dim0]);
  t.strides_ = strides_.with(dim0, strides_[dim1]).with(dim1, strides_[dim0]);
  return t;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone(MemoryCategory category) const { return to(dtype_, category); }

Tensor Tensor::to(DType dtype, MemoryCategory category) const {
  check_converts(dtype_, dtype);
  Tensor result = empty(device(), shape_, dtype, category);
  copy_converted(result, *this);
  return result;
}

Tensor Tensor::to(const Device& target, MemoryCategory category) const {
  check_defined();
  Tensor result = empty(target, shape_, dtype_, category);
  copy_converted(result, *this);
  return result;
}

Tensor cast(const Tensor& tensor, DType dtype, MemoryCategory category) {
  return tensor.dtype() == dtype ? tensor : tensor.to(dtype, category);
}

void cast_into(const Tensor& to, const Tensor& from) {
  expect_tensor("source of cast_into", from, to.shape(), from.dtype());
  check_converts(from.dtype(), to.dtype());
  copy_converted(to, from);
}

void Tensor::fill(double value) const {
  check_access(dtype_);
  if (numel() == 0) return;
  if (!storage_->is_on_host()) return backend::fill_on_device(*this, value);
  dispatch_any(dtype_, [&]<class T>() {
    const T element = element_as<T>(value);
    const std::size_t row = shape_.rank() == 0 ? 1 : shape_[-1];
    const std::size_t step = shape_.rank() == 0 ? 1 : strides_[-1];
    for_each_row(data<T>(), strides_, data<T>(), strides_, shape_, 0, [=](T* t, const T*) {
      for (std::size_t i = 0; i < row; ++i) t[i * step] = element;
    });
  });
}

void Tensor::copy_from(const Tensor& source) const {
  check_access(dtype_);
  expect_tensor("source of copy_from", source, shape_, dtype_);
  copy_converted(*this, source);
}

MemoryCategory Tensor::category() const {
  ensure(defined(), "category of an undefined tensor");
  return storage_->category();
}

void Tensor::set_category(MemoryCategory category) const {
  ensure(defined(), "category of an undefined tensor");
  storage_->set_category(category);
}

void Tensor::used_on(gpu::StreamRole role) const {
  ensure(defined(), "use of an undefined tensor on a stream");
  storage_->device().used_on(storage_->data(), role);
}

std::size_t Tensor::storage_bytes() const { return defined() ? storage_->bytes() : 0; }

void expect_tensor(const char* name, const Tensor& tensor, const Shape& shape, DType dtype) {
  if (!tensor.defined()) {
    throw ShapeError(fmt::format("{}: expected {} of {}, found an undefined tensor", name,
                                 shape.str(), to_string(dtype)));
  }
  if (tensor.shape() != shape || tensor.dtype() != dtype) {
    throw ShapeError(fmt::format("{}: expected {} of {}, found {} of {}", name, shape.str(),
                                 to_string(dtype), tensor.shape().str(),
                                 to_string(tensor.dtype())));
  }
}

template float* Tensor::data<float>() const;
template double* Tensor::data<double>() const;
template std::int32_t* Tensor::data<std::int32_t>() const;
template BFloat16* Tensor::data<BFloat16>() const;
template Float16* Tensor::data<Float16>() const;
template std::span<float> Tensor::span<float>() const;
template std::span<double> Tensor::span<double>() const;
template std::span<std::int32_t> Tensor::span<std::int32_t>() const;
template std::span<BFloat16> Tensor::span<BFloat16>() const;
template std::span<Float16> Tensor::span<Float16>() const;
template Tensor Tensor::from<float>(const Device&, const Shape&, std::span<const float>,
                                    MemoryCategory);
template Tensor Tensor::from<double>(const Device&, const Shape&, std::span<const double>,
                                     MemoryCategory);
template Tensor Tensor::from<std::int32_t>(const Device&, const Shape&,
                                           std::span<const std::int32_t>, MemoryCategory);
template Tensor Tensor::from<BFloat16>(const Device&, const Shape&, std::span<const BFloat16>,
                                       MemoryCategory);
template Tensor Tensor::from<Float16>(const Device&, const Shape&, std::span<const Float16>,
                                      MemoryCategory);

}  // namespace ultra
