#include "common/nn/layers/chunked_head.hpp"

#include <fmt/format.h>

#include <functional>

#include "common/base/errors.hpp"

namespace ultra::nn {
namespace {

/// Tokens of all sequences in one row, where this rank has whole ones: pieces are views then. Ranks that
/// have parts of sequences bring them together, rank after rank, and so stand the targets of a piece.
struct Rows {
  Tensor x;        // [batch or 1, tokens, hidden]
  Tensor targets;  // [batch or 1, ranks, tokens]

  Rows(const Tensor& hidden, const Tensor& all_targets) {
    const std::size_t ranks = all_targets.size(1) / hidden.size(1);
    const std::size_t rows = ranks == 1 ? 1 : hidden.size(0);
    const std::size_t tokens = hidden.size(0) * hidden.size(1) / rows;
    x = hidden.view({rows, tokens, hidden.size(2)});
    targets = all_targets.view({rows, ranks, tokens});
  }

  [[nodiscard]] Tensor x_of(Range piece) const { return x.slice(1, piece).contiguous(); }
  [[nodiscard]] Tensor targets_of(Range piece) const {
    return targets.slice(2, piece).contiguous().view(
        {targets.size(0), targets.size(1) * piece.size()});
  }
};

void for_each_piece(std::size_t tokens, std::size_t pieces, const std::function<void(Range)>& fn) {
  for (std::size_t i = 0; i < pieces; ++i) {
    fn({tokens * i / pieces, tokens * (i + 1) / pieces});
  }
}

}  // namespace

// [region chunked]
double ChunkedHead::forward(const Tensor& x, const Tensor& targets, double normalizer,
                            Saved& saved) const {
  const Rows rows(x, targets);
  if (rows.x.size(1) < pieces_) {
    throw ConfigError(fmt::format(
        "--head-chunks {} is more than the {} tokens that a rank passes at once. Choose "
        "at most {}.",
        pieces_, rows.x.size(1), rows.x.size(1)));
  }
  saved.put("input", x);
  saved.put("targets", targets.clone());  // its own: the batch lives longer
  saved.put("normalizer", Tensor::from<double>(Device::cpu(), {1}, {&normalizer, 1}));
  double loss = 0;
  for_each_piece(rows.x.size(1), pieces_, [&](Range piece) {
    Saved nothing(Saved::Mode::kDiscard, saved.pass());
    const Tensor logits = head_.forward(rows.x_of(piece), nothing).front();
    loss += loss_.forward(logits, rows.targets_of(piece), normalizer, nothing);
  });
  return loss;
}

Tensor ChunkedHead::backward(Saved& saved) const {
  const Tensor x = saved.take("input");
  const Rows rows(x, saved.take("targets"));
  const double normalizer = saved.take("normalizer").to_vector().front();
  const Tensor& sum = saved.pass().loss_sum;
  const Tensor counted =
      sum.defined() ? Tensor::zeros(sum.device(), sum.shape(), sum.dtype()) : sum;
  const Tensor d_x = Tensor::empty(x.device(), rows.x.shape(), x.dtype());
  for_each_piece(rows.x.size(1), pieces_, [&](Range piece) {
    Saved again = saved.recomputing();
    const Tensor logits = head_.forward(rows.x_of(piece), again.child("head")).front();
    Saved& of_loss = again.child_with_loss("loss", counted);  // the forward pass has counted it
    static_cast<void>(loss_.forward(logits, rows.targets_of(piece), normalizer, of_loss));
    const Tensor d_logits = loss_.backward(of_loss);
    d_x.slice(1, piece).copy_from(head_.backward({&d_logits, 1}, again.child("head")));
  });
  return d_x.view(x.shape());
}
// [/region]

}  // namespace ultra::nn
