#include "chapters/11_five_d/sums/tied_table.hpp"

#include <vector>

#include "common/ops/embedding.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "common/ops/token_check.hpp"

namespace ultra::five_d {
namespace {

using ops::as_matrix;
using ops::Transpose;
using tensor_parallel::Region;

/// [count, rows] with a 1 where a token's row is.
Tensor rows_looked_up(const Tensor& tokens, Range part, std::size_t first_token,
                      const Tensor& like) {
  const Tensor ones =
      Tensor::zeros(like.device(), {part.size(), like.size(-1)}, accumulation_dtype(like.dtype()));
  const std::int32_t* const ids = tokens.span<std::int32_t>().data();
  dispatch_float(ones.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::size_t row = static_cast<std::size_t>(ids[part.begin + i]) - first_token;
      if (row < like.size(-1)) ones.data<T>()[i * like.size(-1) + row] = T(1);
    }
  });
  return ones;
}

class TiedHead : public nn::Projections {
 public:
  TiedHead(nn::Parameter& table, std::shared_ptr<Region> region, std::shared_ptr<HeadTerms> terms)
      : table_(&table), region_(std::move(region)), terms_(std::move(terms)) {}

  std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override {
    saved.put("input", x);
    const Tensor all = region_->enter(x).wait();
    const Tensor y = ops::matmul(as_matrix(all), Transpose::kNo, table_->value(), Transpose::kYes);
    return {y.view(all.shape().with(-1, y.size(1)))};
  }

  Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override {
    const Tensor x = saved.take("input");
    const Tensor part = ops::matmul(as_matrix(d_y[0]), Transpose::kNo, table_->value(),
                                    Transpose::kNo, accumulation_dtype(x.dtype()));
    const Tensor all = region_->enter(x).wait();
    *terms_ = {.d_logits = d_y[0], .input = all};
    table_->add_grad([](const Tensor& grad, ops::Write write) {  // its part comes with the other
      if (write == ops::Write::kOverwrite) grad.fill(0.0);
    });
    return cast(region_->enter_backward(part.view(all.shape())).wait(), x.dtype());
  }

  std::vector<nn::Parameter*> parameters() override { return {table_}; }

 private:
  nn::Parameter* table_;
  std::shared_ptr<Region> region_;
  std::shared_ptr<HeadTerms> terms_;
};

class TiedEmbedding : public nn::TokenEmbedding {
 public:
  /// @param owner  of the table.
  TiedEmbedding(std::unique_ptr<nn::TokenEmbedding> owner, std::shared_ptr<Region> region,
                std::shared_ptr<HeadTerms> terms)
      : owner_(std::move(owner)),
        table_(owner_->parameters().front()),
        region_(std::move(region)),
        terms_(std::move(terms)) {}

  Tensor forward(const Tensor& tokens, nn::Saved& saved) override {
    ops::expect_token_ids("token", tokens, table_->global_shape()[0]);
    saved.put("tokens", tokens);
    return region_->leave(ops::embedding_part(table_->value(), tokens, first_token())).wait();
  }

  void backward(const Tensor& d_y, nn::Saved& saved) override {
    const Tensor d_all = region_->leave_backward(d_y).wait();
    const HeadTerms head = std::exchange(*terms_, {});
    for (const Tensor& kept : {head.d_logits, head.input, d_all}) table_->keep_for_grad(kept);
    table_->add_grad([head, d_all, tokens = saved.take("tokens"), first = first_token()](
                         const Tensor& grad, ops::Write write) {
      tied_gradient_into(grad, head, tokens, d_all, first, write);
    });
  }

  std::vector<nn::Parameter*> parameters() override { return {table_}; }

 private:
  [[nodiscard]] std::size_t first_token() const { return table_->shard()[0].begin; }

  std::unique_ptr<nn::TokenEmbedding> owner_;
  nn::Parameter* table_;
  std::shared_ptr<Region> region_;
  std::shared_ptr<HeadTerms> terms_;
};

}  // namespace

void tied_gradient_into(const Tensor& grad, const HeadTerms& head, const Tensor& tokens,
                        const Tensor& d_output, std::size_t first_token, ops::Write write) {
  const Tensor d_logits = as_matrix(head.d_logits);
  const Tensor input = as_matrix(head.input);
  const Tensor looked_up = as_matrix(d_output);
  const std::size_t count = d_logits.size(0);
  const std::size_t leaf = ops::SumTree::of_axis(count).leaf();
  const auto twice = [&](const Tensor& x) {
    return Tensor::empty(x.device(), {2 * count, x.size(1)}, x.dtype());
  };
  const Tensor left = twice(d_logits);
  const Tensor right = twice(input);
  for (std::size_t i = 0; i < count; i += leaf) {
    const Range own{i, i + leaf};
    const Range first{2 * i, 2 * i + leaf};
    const Range second{first.end, first.end + leaf};
    left.slice(0, first).copy_from(d_logits.slice(0, own));
    right.slice(0, first).copy_from(input.slice(0, own));
    cast_into(left.slice(0, second), rows_looked_up(tokens, own, first_token, d_logits));
    right.slice(0, second).copy_from(looked_up.slice(0, own));
  }
  ops::matmul_into(grad, left, Transpose::kYes, right, Transpose::kNo, write);
}

TiedTableFactory::TiedTableFactory(nn::LayerFactory& inner, const Communicator& tp,
                                   tensor_parallel::SequenceParallel sequence_parallel)
    : FactoryWrapper(inner), region_(tensor_parallel::make_region(tp, sequence_parallel)) {}

std::unique_ptr<nn::TokenEmbedding> TiedTableFactory::embedding(const nn::BuildContext& context) {
  terms_ = std::make_shared<HeadTerms>();
  return std::make_unique<TiedEmbedding>(inner().embedding(context), region_, terms_);
}

std::unique_ptr<nn::Projections> TiedTableFactory::tied_head(const nn::BuildContext&,
                                                             nn::Parameter& table) {
  return std::make_unique<TiedHead>(table, region_, terms_);
}

}  // namespace ultra::five_d
