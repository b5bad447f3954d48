#pragma once
/// @file
/// HostView: a tensor's elements as the host reads and writes them, whatever its device.

#include <cstddef>
#include <exception>
#include <span>
#include <type_traits>

#include "common/tensor/tensor.hpp"

namespace ultra {

/// @brief A tensor of the host for a copy of `tensor` whose elements nobody reads: on a device without
/// numbers, the copy and the wait for it are noted, and memory of the host stays as it was.
/// @pre the tensor's device computes nothing (has_numbers), and has streams.
[[nodiscard]] Tensor unread_on_host(const Tensor& tensor);

/// @brief What the host does with a tensor's elements.
enum class HostAccess { kRead, kWrite, kReadWrite };

/// @brief The host's side of a HostView, without its element type.
class HostCopy {
 public:
  /// @brief Brings the elements to the host, unless they are there or will be overwritten.
  HostCopy(const Tensor& tensor, HostAccess access);
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  /// @brief A tensor in the host's memory: on the CPU the viewed one itself.
  [[nodiscard]] const Tensor& host() const { return host_; }

  /// @brief Takes what was written back to the device; once.
  void finish();

 private:
  Tensor tensor_;
  Tensor host_;
  bool writes_back_;
};

/// @brief A tensor's elements in the host's memory.
///
/// On the CPU this is the tensor's own memory and costs nothing. On a device with streams it is a
/// copy: reading waits for the current stream (and is counted, Streams::synchronizations), and what
/// was written goes back at finish() or at the end of the view. `HostView<const float>` reads;
/// `HostView<float>` says what it does.
/// Requires: T is the tensor's element type, const to read.
template <class T>
class HostView {
  using Element = std::remove_const_t<T>;

 public:
  /// @brief The elements to read.
  /// @throws ShapeError when T is not the dtype or the tensor is undefined.
  explicit HostView(const Tensor& tensor) requires std::is_const_v<T>
      : HostView(tensor, HostAccess::kRead, 0) {}

  /// @brief The elements to write, or to read and write. With kWrite all of them must be written.
  /// @throws ShapeError when T is not the dtype or the tensor is undefined.
  HostView(const Tensor& tensor, HostAccess access) requires(!std::is_const_v<T>)
      : HostView(tensor, access, 0) {}

  /// @brief Takes what was written back, unless an exception is on its way.
  ~HostView() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) copy_.finish();
  }

  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  /// @brief The first element.
  [[nodiscard]] T* data() const { return data_; }

  /// @brief How many elements.
  [[nodiscard]] std::size_t size() const { return copy_.host().numel(); }

  /// @brief Distance in elements between neighbours along each dimension in the host's memory: not
  /// the tensor's own where that is a strided view on another device.
  [[nodiscard]] const Shape& strides() const { return copy_.host().strides(); }

  /// @brief All elements, row-major.
  /// @throws ShapeError when the tensor is a strided view on the CPU.
  [[nodiscard]] std::span<T> span() const { return copy_.host().template span<Element>(); }

  /// @brief Element `index` of the memory that data() points to.
  [[nodiscard]] T& operator[](std::size_t index) const { return data_[index]; }

  /// @brief The first element.
  [[nodiscard]] T* begin() const { return span().data(); }
  /// @brief Behind the last element.
  [[nodiscard]] T* end() const { return begin() + size(); }

  /// @brief Takes what was written back to the device now; the view ends with it.
  void finish() { copy_.finish(); }

 private:
  HostView(const Tensor& tensor, HostAccess access, int)
      : copy_(tensor, access),
        data_(copy_.host().template data<Element>()),
        exceptions_(std::uncaught_exceptions()) {}

  HostCopy copy_;
  T* data_;
  int exceptions_;
};

}  // namespace ultra
