#pragma once
/// @file
/// Tensor: a handle with shape and strides on shared storage.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/tensor/device.hpp"
#include "common/tensor/dtype.hpp"
#include "common/tensor/shape.hpp"

namespace ultra {

/// @brief A handle on an n-dimensional array.
///
/// Copying a Tensor copies the handle, never the data: both handles see each other's writes. A copy
/// of the data is always written out: `clone()`, `contiguous()`, `reshape()`, `to()`. A hidden copy
/// would be a lie about memory. A default-constructed Tensor is undefined and holds nothing.
class Tensor {
 public:
  /// @brief An undefined tensor.
  Tensor() = default;

  /// @brief A new contiguous tensor whose elements are not set.
  [[nodiscard]] static Tensor empty(const Device& device, const Shape& shape, DType dtype,
                                    MemoryCategory category = MemoryCategory::kOther);

  /// @brief A new contiguous tensor of zeros.
  [[nodiscard]] static Tensor zeros(const Device& device, const Shape& shape, DType dtype,
                                    MemoryCategory category = MemoryCategory::kOther);

  /// @brief A new contiguous tensor that holds a copy of `values`, row-major.
  /// @throws ShapeError when the number of values is not the shape's.
  template <class T>
  [[nodiscard]] static Tensor from(const Device& device, const Shape& shape,
                                   std::span<const T> values,
                                   MemoryCategory category = MemoryCategory::kOther);

  /// @brief False for a default-constructed tensor.
  [[nodiscard]] bool defined() const { return storage_ != nullptr; }

  /// @brief Extents, outermost first.
  [[nodiscard]] const Shape& shape() const { return shape_; }
  /// @brief Extent of one dimension; negative counts from the end.
  [[nodiscard]] std::size_t size(int dim) const { return shape_[dim]; }
  /// @brief Distance in elements between neighbours along each dimension.
  [[nodiscard]] const Shape& strides() const { return strides_; }
  /// @brief Number of elements; 0 when the tensor is undefined.
  [[nodiscard]] std::size_t numel() const { return defined() ? shape_.numel() : 0; }
  /// @brief Bytes of the elements of this view.
  [[nodiscard]] std::size_t nbytes() const { return numel() * size_of(dtype_); }
  /// @brief Element type.
  [[nodiscard]] DType dtype() const { return dtype_; }
  /// @brief Device of the storage.
  /// @throws ShapeError when the tensor is undefined.
  [[nodiscard]] const Device& device() const;
  /// @brief True when the elements stand row-major without gaps.
  [[nodiscard]] bool is_contiguous() const;

  /// @brief Pointer to the first element of this view, for the host. What must work on every device
  /// takes a HostView instead, or an operation.
  /// @throws ShapeError when T is not the dtype, the tensor is undefined, or the host cannot read it
  /// because its device has streams.
  template <class T>
  [[nodiscard]] T* data() const;

  /// @brief All elements of a contiguous tensor, row-major, for the host.
  /// @throws ShapeError when T is not the dtype or the tensor is not contiguous, and as data().
  template <class T>
  [[nodiscard]] std::span<T> span() const;

  /// @brief First byte of the first element, on any device: for backends and transports.
  /// @throws ShapeError when the tensor is undefined.
  [[nodiscard]] void* address() const;

  /// @brief The elements as doubles, row-major: for tests, tables and messages. Waits for a device
  /// with streams.
  [[nodiscard]] std::vector<double> to_vector() const;

  /// @brief The same elements under another shape, without a copy.
  /// @throws ShapeError when the numbers of elements differ or this tensor is not contiguous.
  [[nodiscard]] Tensor view(const Shape& shape) const;
  /// @brief Like view, but copies when this tensor is not contiguous.
  [[nodiscard]] Tensor reshape(const Shape& shape) const;
  /// @brief Indices `range` of dimension `dim`, without a copy.
  /// @throws ShapeError when the range leaves the dimension.
  [[nodiscard]] Tensor slice(int dim, Range range) const;
  /// @brief Two dimensions exchanged, without a copy.
  [[nodiscard]] Tensor transpose(int dim0, int dim1) const;

  /// @brief This tensor if it is contiguous, else a contiguous copy.
  [[nodiscard]] Tensor contiguous() const;
  /// @brief A contiguous copy.
  [[nodiscard]] Tensor clone(MemoryCategory category = MemoryCategory::kOther) const;
  /// @brief A contiguous copy with another element type; i32 only converts to i32.
  [[nodiscard]] Tensor to(DType dtype, MemoryCategory category = MemoryCategory::kOther) const;
  /// @brief A contiguous copy on another device; from a device with streams to the host it waits.
  [[nodiscard]] Tensor to(const Device& device,
                          MemoryCategory category = MemoryCategory::kOther) const;

  /// @brief Sets every element of this view.
  void fill(double value) const;
  /// @brief Copies the elements of `source`, which has the same shape and dtype, into this view. The
  /// devices may differ; from a device with streams to the host it waits.
  /// @throws ShapeError when shape or dtype differ.
  void copy_from(const Tensor& source) const;

  /// @brief What the storage counts as in the memory tracker.
  [[nodiscard]] MemoryCategory category() const;
  /// @brief Counts the whole storage under another category from now on.
  void set_category(MemoryCategory category) const;
  /// @brief Another stream than that of its allocation uses the storage too: see Device::used_on.
  void used_on(gpu::StreamRole role) const;
  /// @brief Bytes of the whole storage, which views share.
  [[nodiscard]] std::size_t storage_bytes() const;
  /// @brief True when both tensors are views of one storage.
  [[nodiscard]] bool shares_storage(const Tensor& other) const {
    return storage_ != nullptr && storage_ == other.storage_;
  }

 private:
  class Storage;
  void check_defined() const;
  void check_access(DType asked) const;
  void check_on_host() const;
  void check_contiguous(const char* operation) const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Shape strides_;
  std::size_t offset_ = 0;
  DType dtype_ = DType::kF32;
};

/// @brief Strides of a contiguous tensor of that shape.
[[nodiscard]] Shape contiguous_strides(const Shape& shape);

/// @brief The tensor itself when it has that element type, else a converted copy.
/// @param category  of the copy.
/// @throws ShapeError for a conversion from or to i32.
[[nodiscard]] Tensor cast(const Tensor& tensor, DType dtype,
                          MemoryCategory category = MemoryCategory::kOther);

/// @brief Copies the elements of `from` into the view `to`, converted to its element type. The
/// devices may differ, as for Tensor::copy_from.
/// @throws ShapeError when the shapes differ, and for a conversion from or to i32.
void cast_into(const Tensor& to, const Tensor& from);

/// @brief Throws ShapeError unless `tensor` is defined and has exactly this shape and dtype.
void expect_tensor(const char* name, const Tensor& tensor, const Shape& shape, DType dtype);

}  // namespace ultra
