// All factors are kept transposed, P as [R, n] and Q as [R, m]: each of their R vectors stands in
// one piece.
#include "chapters/03_data_parallel/compression/power_sgd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/base/errors.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/host_view.hpp"
#include "common/tensor/philox.hpp"

namespace ultra::data_parallel {
namespace {

using ops::Transpose;

/// A gradient with factors.
struct Matrix {
  std::size_t n = 0;  // rows
  std::size_t m = 0;  // columns
  Range in_bucket;    // its elements
  Range in_residual;  // n m
  Range p;            // R n, of what the first all-reduce adds up
  Range q;            // R m, of what the second one does
};

/// A gradient that is added up as it is.
struct Rest {
  Range in_bucket;
  Range in_first;
};

struct Plan {
  std::vector<Matrix> matrices;
  std::vector<Rest> rest;
  PowerSgdCounts counts;
  std::size_t residual_count = 0;
};

/// The next `count` elements; moves `end` on.
Range take(std::size_t& end, std::size_t count) {
  end += count;
  return {end - count, end};
}

Plan plan_for(std::span<const Shape> shapes, std::size_t rank) {
  Plan plan;
  std::size_t bucket_end = 0;
  for (const Shape& shape : shapes) {
    const Range in_bucket = take(bucket_end, shape.numel());
    if (has_factors(shape, rank)) {
      const std::size_t n = shape[0];
      const std::size_t m = shape[1];
      plan.matrices.push_back({.n = n,
                               .m = m,
                               .in_bucket = in_bucket,
                               .in_residual = take(plan.residual_count, n * m),
                               .p = take(plan.counts.first, rank * n),
                               .q = take(plan.counts.second, rank * m)});
    } else {
      plan.rest.push_back(
          {.in_bucket = in_bucket, .in_first = take(plan.counts.first, shape.numel())});
    }
  }
  return plan;
}

Tensor part(const Tensor& whole, Range range) { return whole.slice(0, range); }

/// out [n, m] = P Q^T. Written out rather than left to a library, whose order of summation may
/// depend on more than the numbers: all replicas must get the same bits.
template <class T>
void multiply_factors(std::span<T> out, std::span<const T> p, std::span<const T> q, std::size_t n,
                      std::size_t m) {
  const std::size_t rank = p.size() / n;
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<T> row = out.subspan(i * m, m);
    std::fill(row.begin(), row.end(), T(0));
    for (std::size_t r = 0; r < rank; ++r) {
      const T factor = p[r * n + i];
      const std::span<const T> vector = q.subspan(r * m, m);
      for (std::size_t j = 0; j < m; ++j) row[j] += factor * vector[j];
    }
  }
}

class PowerSgdExchange final : public BucketExchange {
 public:
  PowerSgdExchange(const Communicator& dp, const PowerSgdOptions& options,
                   const BucketContents& contents, const Device& device, DType dtype)
      : dp_(dp.labeled(contents.label())),
        rank_(options.rank),
        plan_(plan_for(contents.shapes, options.rank)),
        random_(options.seed, fmt::format("PowerSGD {}", contents.label())),
        q_(Tensor::zeros(device, {plan_.counts.second}, dtype, MemoryCategory::kCommunication)) {
    if (options.feedback == ErrorFeedback::kOn) {
      residual_ =
          Tensor::zeros(device, {plan_.residual_count}, dtype, MemoryCategory::kCommunication);
    }
  }

  // [region start]
  void start(const Tensor& bucket) override {
    bucket_ = bucket;
    first_ = Tensor::empty(bucket.device(), {plan_.counts.first}, bucket.dtype(),
                           MemoryCategory::kCommunication);
    draw_empty_vectors();
    for (const Matrix& matrix : plan_.matrices) {
      if (residual_.defined()) {
        ops::add_into(part(residual_, matrix.in_residual), part(bucket, matrix.in_bucket));
      }
      // P^T = Q^T M^T
      ops::matmul_into(p(matrix), q(matrix), Transpose::kNo, m(matrix), Transpose::kYes);
    }
    for (const Rest& rest : plan_.rest) {
      part(first_, rest.in_first).copy_from(part(bucket, rest.in_bucket));
    }
    sum_ = dp_.all_reduce(first_);
  }
  // [/region]

  // [region finish]
  void finish() override {
    sum_.wait();  // before it, first_ holds anything
    for (const Rest& rest : plan_.rest) {
      part(bucket_, rest.in_bucket).copy_from(part(first_, rest.in_first));
    }
    for (const Matrix& matrix : plan_.matrices) {
      dispatch_float(q_.dtype(), [&]<class T>() {
        const HostView<T> vectors(part(first_, matrix.p), HostAccess::kReadWrite);
        orthonormalize<T>(vectors.span(), rank_);
      });
      // Q^T = P^T M
      ops::matmul_into(q(matrix), p(matrix), Transpose::kNo, m(matrix), Transpose::kNo);
    }
    if (!plan_.matrices.empty()) dp_.all_reduce(q_).wait();
    for (const Matrix& matrix : plan_.matrices) write_product(matrix);
    bucket_ = Tensor();
    first_ = Tensor();
  }
  // [/region]

 private:
  [[nodiscard]] Tensor p(const Matrix& matrix) const {
    return part(first_, matrix.p).view({rank_, matrix.n});
  }
  [[nodiscard]] Tensor q(const Matrix& matrix) const {
    return part(q_, matrix.q).view({rank_, matrix.m});
  }
  /// What is approximated: the gradient, with feedback and the residual.
  [[nodiscard]] Tensor m(const Matrix& matrix) const {
    const Tensor elements =
        residual_.defined() ? part(residual_, matrix.in_residual) : part(bucket_, matrix.in_bucket);
    return elements.view({matrix.n, matrix.m});
  }

  /// Fills the vectors of Q that are zero, all of them in the first step, with random numbers: else
  /// their P would be zero, too, and they for ever. The numbers are the same on all replicas.
  void draw_empty_vectors() {
    dispatch_float(q_.dtype(), [&]<class T>() {
      const HostView<T> view(q_, HostAccess::kReadWrite);
      const std::span<T> all = view.span();
      for (const Matrix& matrix : plan_.matrices) {
        for (std::size_t r = 0; r < rank_; ++r) {
          const std::size_t begin = matrix.q.begin + r * matrix.m;
          const std::span<T> vector = all.subspan(begin, matrix.m);
          if (std::ranges::any_of(vector, [](T x) { return x != T(0); })) continue;
          for (std::size_t j = 0; j < matrix.m; ++j) {
            vector[j] = static_cast<T>(random_.normal(draws_ * all.size() + begin + j));
          }
        }
      }
    });
    ++draws_;
  }

  void write_product(const Matrix& matrix) const {
    const Tensor product = part(bucket_, matrix.in_bucket);
    dispatch_float(q_.dtype(), [&]<class T>() {
      const HostView<T> sent(product, HostAccess::kWrite);
      const HostView<const T> p(part(first_, matrix.p));
      const HostView<const T> q(part(q_, matrix.q));
      multiply_factors<T>(sent.span(), p.span(), q.span(), matrix.n, matrix.m);
      if (!residual_.defined()) return;
      const HostView<T> left(part(residual_, matrix.in_residual), HostAccess::kReadWrite);
      const T share = T(1) / static_cast<T>(dp_.size());
      for (std::size_t i = 0; i < left.size(); ++i) left[i] -= share * sent[i];
    });
  }

  Communicator dp_;
  std::size_t rank_;  // R
  Plan plan_;
  PhiloxStream random_;
  std::uint64_t draws_ = 0;  // times that vectors of Q were looked through
  Tensor q_;                 // from step to step
  Tensor residual_;          // of the matrices; undefined without error feedback
  Tensor bucket_;            // from start() to finish()
  Tensor first_;             // P and the rest, from start() to finish()
  Work sum_;
};

}  // namespace

bool has_factors(const Shape& shape, std::size_t rank) {
  return shape.rank() == 2 && rank * (shape[0] + shape[1]) < shape.numel();
}

PowerSgdCounts power_sgd_counts(std::span<const Shape> shapes, std::size_t rank) {
  return plan_for(shapes, rank).counts;
}

MakeBucketExchange power_sgd_exchange(const Communicator& dp, const PowerSgdOptions& options) {
  if (options.rank == 0) throw ConfigError("PowerSGD's rank is 0. It must be at least 1.");
  return [=](const BucketContents& contents, const Device& device, DType dtype) {
    return std::make_unique<PowerSgdExchange>(dp, options, contents, device, dtype);
  };
}

}  // namespace ultra::data_parallel
