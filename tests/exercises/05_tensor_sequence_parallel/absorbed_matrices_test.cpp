// Contract of exercise 05.7: scores and outputs of random latents, against the four matrices one after the
// other.
#include "chapters/05_tensor_sequence_parallel/absorbed_matrices.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using Vector = std::vector<double>;

Vector times(const Tensor& matrix, const Vector& x) {
  const Vector all = matrix.to_vector();
  Vector y(matrix.size(0), 0.0);
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += all[i * x.size() + j] * x[j];
  }
  return y;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

bool near(double found, double expected) { return std::abs(found - expected) < 1e-12; }

class AbsorbedMatricesTest : public ultra::test::RandomTest {
 protected:
  void draw() {
    sizes = {.on = true,
             .kv_lora_rank = random.between(2, 6),
             .q_lora_rank = random.between(2, 6),
             .qk_nope_head_dim = 2 * random.between(1, 3),
             .qk_rope_head_dim = 2 * random.between(1, 2),
             .v_head_dim = random.between(2, 5)};
    heads = random.between(2, 4);
    hidden = random.between(2, 7);
    query = matrix(heads * sizes.qk_head_dim(), sizes.q_lora_rank);
    key_value = matrix(heads * rows_of_a_head(), sizes.kv_lora_rank);
    output = matrix(hidden, heads * sizes.v_head_dim);
  }

  Tensor matrix(std::size_t rows, std::size_t columns) {
    return random.tensor(device, {rows, columns}, DType::kF64);
  }
  Vector numbers(std::size_t count) { return matrix(1, count).to_vector(); }
  [[nodiscard]] std::size_t rows_of_a_head() const {
    return sizes.qk_nope_head_dim + sizes.v_head_dim;
  }

  /// (W_Q a) . (W_K c), with W_Q and W_K from these rows on.
  [[nodiscard]] double score(std::size_t of_query, std::size_t of_key, const Vector& a,
                             const Vector& c) const {
    const std::size_t rows = sizes.qk_nope_head_dim;
    return dot(times(query.slice(0, {of_query, of_query + rows}), a),
               times(key_value.slice(0, {of_key, of_key + rows}), c));
  }
  /// W_O W_V c, with W_V from this row on, and W_O from this column on.
  [[nodiscard]] Vector added(std::size_t of_value, std::size_t of_output, const Vector& c) const {
    const std::size_t width = sizes.v_head_dim;
    return times(output.slice(1, {of_output, of_output + width}),
                 times(key_value.slice(0, {of_value, of_value + width}), c));
  }

  [[nodiscard]] std::string hint_for_score(std::size_t head, double found, const Vector& a,
                                           const Vector& c) const {
    const std::size_t nope = sizes.qk_nope_head_dim;
    if (near(found, score(head * nope, head * rows_of_a_head(), a, c))) {
      return "behind a head's W_Q stand its rows that are rotated, so the next head's begins "
             "qk_nope_head_dim + qk_rope_head_dim rows later.";
    }
    if (near(found, score(head * sizes.qk_head_dim(), head * nope, a, c))) {
      return "behind a head's W_K stands its W_V, not the next head's W_K.";
    }
    return "c . (W_K^T W_Q) a, with the rows of this head: as many rows as kv_lora_rank, as many "
           "columns as q_lora_rank.";
  }
  [[nodiscard]] std::string hint_for_output(std::size_t head, const Vector& found,
                                            const Vector& c) const {
    const auto is = [&](const Vector& other) {
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (!near(found[i], other[i])) return false;
      }
      return true;
    };
    const std::size_t keys = head * rows_of_a_head();
    const std::size_t columns = head * sizes.v_head_dim;
    if (is(added(heads * sizes.qk_nope_head_dim + columns, columns, c))) {
      return "behind a head's W_K stands its W_V, not the next head's W_K.";
    }
    if (is(added(keys, columns, c))) {
      return "a head's rows of kv_b_proj begin with W_K, which has qk_nope_head_dim rows; W_V "
             "stands behind.";
    }
    if (is(added(keys + sizes.qk_nope_head_dim, 0, c))) {
      return "these are the first head's columns of o_proj: each head has its own, v_head_dim of "
             "them.";
    }
    return "(W_O W_V) c, with this head's rows and columns.";
  }

  /// Both matrices of each head, on latents that are drawn.
  void check() {
    const AbsorbedMatrices found = absorb_matrices(query, key_value, output, sizes);
    ASSERT_EQ(found.score.shape(), (Shape{heads, sizes.kv_lora_rank, sizes.q_lora_rank}));
    ASSERT_EQ(found.output.shape(), (Shape{heads, hidden, sizes.kv_lora_rank}));
    const Vector a = numbers(sizes.q_lora_rank);
    const Vector c = numbers(sizes.kv_lora_rank);
    for (std::size_t head = 0; head < heads && !HasFailure(); ++head) {
      const std::size_t keys = head * rows_of_a_head();
      const auto of_head = [head](const Tensor& all) { return all.slice(0, {head, head + 1}); };
      const Tensor compared = of_head(found.score).view({sizes.kv_lora_rank, sizes.q_lora_rank});
      const double sum = dot(c, times(compared, a));
      EXPECT_NEAR(sum, score(head * sizes.qk_head_dim(), keys, a, c), 1e-12)
          << "the score of head " << head << "\nHint: " << hint_for_score(head, sum, a, c);
      const Tensor adds = of_head(found.output).view({hidden, sizes.kv_lora_rank});
      const Vector y = times(adds, c);
      const Vector expected = added(keys + sizes.qk_nope_head_dim, head * sizes.v_head_dim, c);
      for (std::size_t i = 0; i < hidden && !HasFailure(); ++i) {
        EXPECT_NEAR(y[i], expected[i], 1e-12) << "element " << i << " of what head " << head
                                              << " adds\nHint: " << hint_for_output(head, y, c);
      }
    }
  }

  nn::LatentAttention sizes;
  std::size_t heads = 0;
  std::size_t hidden = 0;
  Tensor query;
  Tensor key_value;
  Tensor output;
};

TEST_F(AbsorbedMatricesTest, SayWhatTheFourMatricesSay) {
  for (int trial = 0; trial < 8 && !HasFailure(); ++trial) {
    draw();
    check();
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
