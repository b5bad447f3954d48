#pragma once
/// @file
/// Numbers of ranks, arrays and parameters of whole numbers, whose sums over ranks are exact, and
/// words between ranks.

#include <initializer_list>

#include "common/comm/communicator.hpp"
#include "common/nn/parameter.hpp"
#include "common/ops/elementwise.hpp"
#include "common/tensor/tensor.hpp"
#include "tests/support/ranks/on_ranks.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel::test {

using Values = std::vector<double>;

inline std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// @brief Calls check(ranks, dtype) for both dtypes, until one fails.
template <class Check>
void for_ranks(std::initializer_list<int> numbers, const Check& check) {
  for (const int ranks : numbers) {
    for (const DType dtype : ultra::test::kFloatDTypes) {
      if (!::testing::Test::HasFailure()) check(ranks, dtype);
    }
  }
}

/// @brief Whole numbers in [-8, 8].
inline Values whole_numbers(std::uint64_t seed, int rank, std::size_t array, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = ultra::test::whole_number(seed, rank, array, i);
  }
  return values;
}

/// @brief The sum of of_rank(rank) over the ranks.
template <class OfRank>
Values sum_over_ranks(int ranks, const OfRank& of_rank) {
  Values sums = of_rank(0);
  for (int rank = 1; rank < ranks; ++rank) {
    const Values values = of_rank(rank);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  return sums;
}

inline Tensor tensor_of(const Device& device, const Shape& shape, const Values& values,
                        DType dtype) {
  const Tensor tensor = Tensor::empty(device, shape, dtype);  // and no other memory
  dispatch_float(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i) tensor.span<T>()[i] = static_cast<T>(values[i]);
  });
  return tensor;
}

/// @brief A contiguous copy in another device's memory.
inline Tensor copy_to(const Device& device, const Tensor& tensor) {
  const Tensor copy = Tensor::empty(device, tensor.shape(), tensor.dtype());
  copy.copy_from(tensor);
  return copy;
}

/// @brief A parameter with these values.
inline std::unique_ptr<nn::Parameter> make_parameter(const Device& device, const std::string& name,
                                                     const Tensor& value) {
  auto parameter = std::make_unique<nn::Parameter>(
      nn::ParameterSpec{
          .name = name, .global_shape = value.shape(), .shard = {}, .initializer = {}},
      device, value.dtype(), 0, nn::Values::kDeferred);
  parameter->set_value(copy_to(device, value));
  return parameter;
}

/// @brief A contiguous copy, every element times a factor.
inline Tensor scaled(const Tensor& tensor, double factor) {
  const Tensor result = tensor.clone();
  ops::scale_into(result, factor);
  return result;
}

/// @brief A tensor of whole numbers in [-8, 8].
inline Tensor whole_tensor(ultra::test::Random& random, const Device& device, const Shape& shape,
                           DType dtype) {
  Values values(shape.numel());
  for (double& value : values) value = static_cast<double>(random.between(0, 16)) - 8;
  return tensor_of(device, shape, values, dtype);
}

/// @brief Words between two ranks: one that comes to a point says so, another waits for it.
class Words {
 public:
  explicit Words(const Communicator& tp) : words_(tp.split([](int) { return 0; }, "words")) {}

  void say(int peer) const { words_.send(word_, peer).wait(); }
  void await(int peer) const { words_.recv(word_, peer).wait(); }

 private:
  Communicator words_;
  Tensor word_ = Tensor::zeros(Device::cpu(), {1}, DType::kF32);
};

}  // namespace ultra::tensor_parallel::test
