// Message of top-k: the k values, then their k positions, in ascending order of the positions.

#include <fmt/format.h>

#include <limits>

#include "chapters/03_data_parallel/compression/compressor.hpp"
#include "chapters/03_data_parallel/compression/message_words.hpp"
#include "chapters/03_data_parallel/top_k_feedback.hpp"
#include "common/base/errors.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::data_parallel {
namespace {

class TopK final : public Compressor {
 public:
  explicit TopK(double fraction) : fraction_(fraction) {
    if (fraction > 0.0 && fraction <= 1.0) return;
    throw ConfigError(fmt::format(
        "top-k keeps a fraction of the gradient above 0 and up to 1, found {}.", fraction));
  }

  [[nodiscard]] std::size_t message_words(std::size_t count, DType dtype) const override {
    return kept_entries(fraction_, count) * (words_of(dtype) + 1);
  }

  void compress(const Tensor& gradient, const Tensor& message) const override {
    dispatch_float(gradient.dtype(), [&]<class T>() {
      const HostView<const T> view(gradient);
      const std::span<const T> entries = view.span();
      const HostView<std::int32_t> words_of_message(message, HostAccess::kWrite);
      ensure(entries.size() <= std::numeric_limits<std::uint32_t>::max(),
             "positions of top-k fit a word");
      const std::size_t kept = kept_entries(fraction_, entries.size());
      const std::vector<std::uint32_t> positions = largest_entries<T>(entries, kept);
      ensure(positions.size() == kept,
             "largest_entries returns as many positions as it was asked for");
      std::int32_t* at = words_of_message.data();
      for (const std::uint32_t position : positions) {
        ensure(position < entries.size(), "largest_entries returns positions of the entries");
        at = put(at, entries.subspan(position, 1));
      }
      put(at, std::span<const std::uint32_t>(positions));
    });
  }

  void add_decompressed(const Tensor& message, double factor, const Tensor& into) const override {
    dispatch_float(into.dtype(), [&]<class T>() {
      const HostView<T> view(into, HostAccess::kReadWrite);
      const std::span<T> sums = view.span();
      const HostView<const std::int32_t> words_of_message(message);
      const std::size_t kept = kept_entries(fraction_, sums.size());
      const std::int32_t* values = words_of_message.data();
      const std::int32_t* positions = values + kept * words_of(dtype_of<T>());
      for (std::size_t i = 0; i < kept; ++i) {
        sums[number_at<std::uint32_t>(positions, i)] +=
            static_cast<T>(factor) * number_at<T>(values, i);
      }
    });
  }

 private:
  double fraction_;
};

}  // namespace

std::shared_ptr<const Compressor> top_k_compressor(double fraction) {
  return std::make_shared<const TopK>(fraction);
}

}  // namespace ultra::data_parallel
