#pragma once
/// @file
/// A bucket's exchange, step after step, with gradients that all ranks know of each other.

#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/tensor/philox.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::data_parallel::test {

using namespace ultra::test;

/// @brief A bucket of these gradients.
inline BucketContents contents_of(std::vector<Shape> shapes, std::size_t number = 0) {
  BucketContents contents{.number = number, .shapes = std::move(shapes)};
  for (const Shape& shape : contents.shapes) contents.count += shape.numel();
  return contents;
}

/// @brief The numbers of rank `rank` in step `step`: normal, the same wherever they are drawn.
inline Tensor gradient_of(const Device& device, std::size_t count, DType dtype, std::size_t seed,
                          std::size_t rank, std::size_t step) {
  const Tensor gradient = Tensor::empty(device, {count}, dtype, MemoryCategory::kGradients);
  const PhiloxStream stream(seed, "gradient of rank " + std::to_string(rank));
  dispatch_float(dtype, [&]<class T>() {
    const std::span<T> elements = gradient.span<T>();
    for (std::size_t i = 0; i < count; ++i) {
      elements[i] = static_cast<T>(stream.normal(step * count + i));
    }
  });
  return gradient;
}

/// @brief The bucket after an exchange that began with a copy of `gradient`.
inline std::vector<double> exchanged(BucketExchange& exchange, const Tensor& gradient) {
  const Tensor bucket = gradient.clone(MemoryCategory::kGradients);
  exchange.start(bucket);
  exchange.finish();
  return bucket.to_vector();
}

/// @brief The sum of the ranks' gradients. Collective.
inline Tensor sum_of(const Tensor& gradient, const Communicator& world) {
  const Tensor sum = gradient.clone();
  world.all_reduce(sum).wait();
  return sum;
}

/// @brief a += factor b
inline void add(std::vector<double>& a, const std::vector<double>& b, double factor = 1) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
}

/// @brief Euclidean norm.
inline double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// @brief Norm of the difference.
inline double distance(std::vector<double> a, const std::vector<double>& b) {
  add(a, b, -1);
  return norm_of(a);
}

}  // namespace ultra::data_parallel::test
