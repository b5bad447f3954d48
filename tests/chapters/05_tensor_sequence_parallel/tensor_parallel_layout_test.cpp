#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"

#include "chapters/05_tensor_sequence_parallel/options/tensor_parallel_options.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using Layout = test::RandomTest;

TEST_F(Layout, PartsAddUpToTheWhole) {
  for (int round = 0; round < 20; ++round) {
    const std::size_t ranks = random.between(1, 9);
    const TensorParallelLayout layout{.tp = static_cast<int>(ranks),
                                      .sequence_parallel = SequenceParallel::kOn};
    const std::size_t heads = ranks * random.between(1, 5);
    EXPECT_EQ(layout.local_heads(heads) * ranks, heads);
    EXPECT_EQ(layout.local_seq_len(heads) * ranks, heads);
    const std::size_t vocabulary = random.between(1, 99);
    EXPECT_GE(layout.local_vocab_size(vocabulary) * ranks, vocabulary);
    EXPECT_LT(layout.local_vocab_size(vocabulary) * ranks, vocabulary + ranks);
    const std::size_t kv_heads = random.pick<std::size_t>({1, ranks, 2 * ranks});
    EXPECT_EQ(layout.local_kv_heads(kv_heads) * ranks, kv_heads * layout.kv_copies(kv_heads));
  }
}

TEST(TensorParallelOptions, RefusalsSayWhatDoesNotFit) {
  test::expect_refused<TensorParallelOptions>(
      {{"--tp 0", {"--tp is 0"}},
       {"--tp 4097", {"--tp is 4097", "to 4096"}},
       {"--sp on", {"--sp on has no meaning without --tp"}},
       {"--tp-overlap none", {"--tp-overlap has no meaning"}},
       {"--tp 2 --tp-overlap ring", {"--tp-overlap ring needs --sp on"}}});
}

}  // namespace
}  // namespace ultra::tensor_parallel
