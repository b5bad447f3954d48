#pragma once
/// @file
/// Memory of the host as the caching allocator asks for it from the system.

#include <cstddef>

namespace ultra::backend {

/// @brief Takes `bytes` from the system, aligned to 64 bytes (2 MiB pages for large blocks).
/// @throws std::bad_alloc when the system has no more.
[[nodiscard]] void* take_host_memory(std::size_t bytes);

/// @brief Gives a block back to the system.
void give_back_host_memory(void* block, std::size_t bytes);

/// @brief Marks a cached block as unusable: under AddressSanitizer any access is reported.
void mark_free(void* block, std::size_t bytes);

/// @brief Marks a block as usable; under AddressSanitizer it is filled with NaN, so that reading
/// memory that nobody has written shows.
void mark_used(void* block, std::size_t bytes);

/// @brief The system gets a cached block back, which it may use.
void mark_given_back(void* block, std::size_t bytes);

}  // namespace ultra::backend
