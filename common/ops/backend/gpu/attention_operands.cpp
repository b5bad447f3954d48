#include "common/ops/backend/gpu/attention_operands.hpp"

#include "common/base/numeric.hpp"

namespace ultra::ops::gpu {

SeenKeys::SeenKeys(const Tensor& query, const Tensor& key, const AttentionOptions& options)
    : query_positions_(query.device(), options.query_positions),
      key_positions_(query.device(), options.key_positions) {
  if (!options.first_seen.empty()) first_seen_ = upload(query.device(), options.first_seen);
  shape_ = {.batch = checked_cast<int>(query.size(0)),
            .query_seq = checked_cast<int>(query.size(1)),
            .key_seq = checked_cast<int>(key.size(1)),
            .heads = checked_cast<int>(query.size(2)),
            .kv_heads = checked_cast<int>(key.size(2)),
            .head_dim = checked_cast<int>(query.size(3)),
            .scale = options.scale,
            .is_causal = options.mask == Mask::kCausal,
            .query_positions = query_positions_.get(),
            .key_positions = key_positions_.get(),
            .first_seen = first_seen_.defined()
                              ? static_cast<const std::int32_t*>(first_seen_.address())
                              : nullptr};
}

}  // namespace ultra::ops::gpu
