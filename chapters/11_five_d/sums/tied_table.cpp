#include "chapters/11_five_d/sums/tied_table.hpp"

#include <cstdint>
#include <list>
#include <map>

#include "common/base/numeric.hpp"
#include "common/nn/initialization.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "common/ops/token_check.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::five_d {

/// Terms of micro-batches on their way from the head to the table.
class TiedTerms {
 public:
  explicit TiedTerms(Communicator ends) : ends_(ends.labeled("terms of a tied table")) {}

  void give(std::size_t micro_batch, const HeadTerms& terms) {
    if (ends_.size() == 1) {
      waiting_[micro_batch] = terms;
      return;
    }
    sends_.remove_if([](Work& work) { return work.done(); });
    sends_.push_back(ends_.send(terms.d_logits.contiguous(), other(), name_of(micro_batch, 0)));
    sends_.push_back(ends_.send(terms.input.contiguous(), other(), name_of(micro_batch, 1)));
  }

  /// @param room  for what comes from another rank.
  [[nodiscard]] HeadTerms take(std::size_t micro_batch, const HeadTerms& room) {
    if (ends_.size() == 1) return std::move(waiting_.extract(micro_batch).mapped());
    Work logits = ends_.recv(room.d_logits, other(), name_of(micro_batch, 0));
    ends_.recv(room.input, other(), name_of(micro_batch, 1)).wait();
    logits.wait();
    return room;
  }

 private:
  [[nodiscard]] int other() const { return 1 - ends_.rank(); }
  static MessageName name_of(std::size_t micro_batch, std::uint32_t which) {
    return {.number = checked_cast<std::uint32_t>(2 * micro_batch + which)};
  }

  Communicator ends_;
  std::map<std::size_t, HeadTerms> waiting_;  // by micro-batch
  std::list<Work> sends_;
};

namespace {

using ops::as_matrix;
using ops::Transpose;
using tensor_parallel::Region;

/// [count, rows] with a 1 where a token's row is.
Tensor rows_looked_up(const Tensor& tokens, Range part, std::size_t first_token,
                      const Tensor& like) {
  const Tensor ones =
      Tensor::zeros(Device::cpu(), {part.size(), like.size(-1)}, accumulation_dtype(like.dtype()));
  const HostView<const std::int32_t> ids(tokens);
  dispatch_float(ones.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::size_t row = static_cast<std::size_t>(ids[part.begin + i]) - first_token;
      if (row < like.size(-1)) ones.data<T>()[i * like.size(-1) + row] = T(1);
    }
  });
  return ones.to(like.device());
}

class TiedHead : public nn::Projections {
 public:
  /// @param owner  of the table where no embedding has it; null.
  TiedHead(nn::Parameter& table, std::shared_ptr<Region> region, std::shared_ptr<TiedTerms> terms,
           std::unique_ptr<nn::Projections> owner = nullptr)
      : owner_(std::move(owner)),
        table_(&table),
        region_(std::move(region)),
        terms_(std::move(terms)) {}

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
    terms_->give(saved.pass().micro_batch, {.d_logits = d_y[0], .input = all});
    table_->add_grad([](const Tensor& grad, ops::Write write) {  // its part comes with the other
      if (write == ops::Write::kOverwrite) grad.fill(0.0);
    });
    return cast(region_->enter_backward(part.view(all.shape())).wait(), x.dtype());
  }

  std::vector<nn::Parameter*> parameters() override { return {table_}; }

 private:
  std::unique_ptr<nn::Projections> owner_;
  nn::Parameter* table_;
  std::shared_ptr<Region> region_;
  std::shared_ptr<TiedTerms> terms_;
};

class TiedEmbedding : public nn::TokenEmbedding {
 public:
  /// @param owner  of the table.
  TiedEmbedding(std::unique_ptr<nn::TokenEmbedding> owner, std::shared_ptr<Region> region,
                std::shared_ptr<TiedTerms> terms)
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
    const HeadTerms head = terms_->take(saved.pass().micro_batch, room_for_terms(d_all));
    for (const Tensor& kept : {head.d_logits, head.input, d_all}) table_->keep_for_grad(kept);
    table_->add_grad([head, d_all, tokens = saved.take("tokens"), first = first_token()](
                         const Tensor& grad, ops::Write write) {
      tied_gradient_into(grad, head, tokens, d_all, first, write);
    });
  }

  std::vector<nn::Parameter*> parameters() override { return {table_}; }

 private:
  [[nodiscard]] std::size_t first_token() const { return table_->shard()[0].begin; }
  [[nodiscard]] HeadTerms room_for_terms(const Tensor& like) const {
    const auto room = [&](std::size_t width) {
      return Tensor::empty(like.device(), like.shape().with(-1, width), like.dtype(),
                           MemoryCategory::kActivations);
    };
    return {.d_logits = room(table_->shape()[0]), .input = room(table_->shape()[1])};
  }

  std::unique_ptr<nn::TokenEmbedding> owner_;
  nn::Parameter* table_;
  std::shared_ptr<Region> region_;
  std::shared_ptr<TiedTerms> terms_;
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
                                   tensor_parallel::SequenceParallel sequence_parallel,
                                   const Communicator& ends)
    : FactoryWrapper(inner),
      region_(tensor_parallel::make_region(tp, sequence_parallel)),
      terms_(std::make_shared<TiedTerms>(ends)) {}

std::unique_ptr<nn::TokenEmbedding> TiedTableFactory::embedding(const nn::BuildContext& context) {
  return std::make_unique<TiedEmbedding>(inner().embedding(context), region_, terms_);
}

std::unique_ptr<nn::Projections> TiedTableFactory::tied_head(const nn::BuildContext&,
                                                             nn::Parameter& table) {
  return std::make_unique<TiedHead>(table, region_, terms_);
}

std::unique_ptr<nn::Projections> TiedTableFactory::column_linear(
    const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) {
  auto made = inner().column_linear(context, specs);
  if (specs.front().name != nn::kEmbeddingName) return made;
  nn::Parameter& table = *made->parameters().front();
  return std::make_unique<TiedHead>(table, region_, terms_, std::move(made));
}

}  // namespace ultra::five_d
