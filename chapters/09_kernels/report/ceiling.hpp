#pragma once
/// @file
/// What a GPU reaches at the kind of work that limits a ladder: measured in turn with each rung,
/// for a published number is another card's.

#include <memory>
#include <string>

#include "chapters/09_kernels/ladder.hpp"

namespace ultra::ladders {

/// @brief Work that shows what the GPU can do.
class Ceiling {
 public:
  Ceiling() = default;
  virtual ~Ceiling() = default;
  Ceiling(const Ceiling&) = delete;
  Ceiling& operator=(const Ceiling&) = delete;

  /// @brief Who does the work: "cuBLAS fp32 4096x4096x4096".
  [[nodiscard]] virtual std::string name() const = 0;
  /// @brief What it does: operations, or bytes where memory is the limit.
  [[nodiscard]] virtual double work() const = 0;
  /// @brief Queues it on the default stream.
  virtual void launch() = 0;
};

/// @brief What limits a ladder, as a rate.
struct RateUnit {
  /// @brief "TFLOP/s" or "GB/s".
  const char* name;
  /// @brief How many of the work's units a second it stands for.
  double scale;
};

/// @brief The unit of a ladder's rates.
[[nodiscard]] RateUnit rate_unit(Limit limit);

/// @brief The part of a problem's cost that its limit counts: operations or bytes.
[[nodiscard]] double limited_work(Limit limit, const Cost& cost);

/// @brief The extents of cuBLAS's product for a problem: its own where the problem is a product
/// (rows x columns x depth), else a cube of about as many operations, at most 8192.
[[nodiscard]] Sizes product_sizes(const LadderInfo& ladder, const Sizes& sizes, const Cost& cost);

/// @brief The work that shows a ladder's limit: a kernel that only reads and writes as many
/// bytes, or cuBLAS's product.
/// @return null when there is no cuBLAS; `why_not` then says why.
/// @throws simt::SimtError (Fault::kCuda) without a GPU or its memory.
[[nodiscard]] std::unique_ptr<Ceiling> make_ceiling(const LadderInfo& ladder, const Sizes& sizes,
                                                    const Cost& cost, std::string& why_not);

}  // namespace ultra::ladders
