#pragma once
/// @file
/// PowerSGD: gradients of matrices as the product of two thin ones, which an all-reduce can add up.
///
/// Legend: a gradient M [n, m], its factors P [n, R] and Q [m, R]. One step of power iteration on
/// the sum of all replicas' M, without anybody having it: M Q is linear in M, so the sum of the
/// products is the product of the sum. Unlike the messages of compressed_exchange(), the volume
/// does not grow with the number of replicas.
/// Source: Vogels, Karimireddy and Jaggi 2019, "PowerSGD", arXiv 1905.13727, algorithms 1 and 2.

#include <cstddef>
#include <cstdint>
#include <span>

#include "chapters/03_data_parallel/bucket_exchange.hpp"
#include "chapters/03_data_parallel/compression/compressor.hpp"
#include "common/comm/communicator.hpp"
#include "common/tensor/shape.hpp"

namespace ultra::data_parallel {

/// @brief How PowerSGD works.
struct PowerSgdOptions {
  std::size_t rank = 2;                         ///< R, at least 1
  ErrorFeedback feedback = ErrorFeedback::kOn;  ///< for the matrices
  std::uint64_t seed = 1;                       ///< of the first Q, the same on all replicas
};

/// @brief Whether a gradient travels as two factors: a matrix [n, m] for which R (n + m) < n m.
///
/// All others, the weights of norms for example, are added up as they are.
[[nodiscard]] bool has_factors(const Shape& shape, std::size_t rank);

/// @brief Elements of the two all-reduces of a bucket.
struct PowerSgdCounts {
  std::size_t first = 0;   ///< all P, and the gradients without factors
  std::size_t second = 0;  ///< all Q
  bool operator==(const PowerSgdCounts&) const = default;
};

/// @brief The sums of R n and of R m over the matrices, and of the elements of the rest.
[[nodiscard]] PowerSgdCounts power_sgd_counts(std::span<const Shape> shapes, std::size_t rank);

/// @brief Adds up a bucket's gradients of rank-R approximations, by two all-reduces.
///
/// start() issues the all-reduce of all P = M Q and of the gradients without factors. finish()
/// makes P orthonormal, issues the all-reduce of all Q = M^T P, and sets each matrix to P Q^T. Q is
/// kept: the next step's power iteration starts from it. With error feedback M is the gradient plus
/// the residual, and the next residual is M - P Q^T / N.
/// Deviation: the residual is what an equal share of the *sum* leaves of its own M, not what
/// its own factors would leave; so do the authors' program and PyTorch's. Both have the same sum
/// over the replicas, and nothing else counts.
/// Deviation: gradients without factors travel with P rather than by themselves, which saves an
/// operation; the orthogonalisation takes two passes and drops what is rounding noise, so that M
/// may be zero or of a lower rank than R.
/// NaN and infinity in a matrix make all of it NaN on all replicas.
/// Collective over dp. Cost: 2 (N-1)/N bytes of power_sgd_counts() sent per rank; 6 R FLOP per
/// element of M. Memory: Q and, with error feedback, a residual as large as the matrices stay from
/// step to step; P and the copies of the rest until finish(). All of it counts as communication.
/// @throws ConfigError for a rank of 0.
[[nodiscard]] MakeBucketExchange power_sgd_exchange(const Communicator& dp,
                                                    const PowerSgdOptions& options);

/// @brief Makes `count` vectors orthonormal by modified Gram-Schmidt, taken twice.
///
/// A vector that depends on those before it, up to rounding, becomes zero: its direction would be
/// noise. Requires: T is float or double (both are instantiated).
/// @param vectors  [count, length], one after the other; changed in place.
/// Cost: 4 count^2 length FLOP.
/// Source: Giraud et al. 2005, "Rounding error analysis of the classical Gram-Schmidt process", on
/// why two passes are enough.
template <FloatingScalar T>
void orthonormalize(std::span<T> vectors, std::size_t count);

}  // namespace ultra::data_parallel
