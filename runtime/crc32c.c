/* crc32c.c: CRC-32C (Castagnoli, reflected polynomial 0x82f63b78, as in iSCSI, RFC 3720 B.4),
 * eight bytes a step by the processor's own instruction where it has one, else by a table of 256
 * that is made on the stack: a plan is read once, and a shared table would need a lock.
 */
#include "stw_internal.h"

#include <string.h>

static uint32_t crc_table(uint32_t crc, const uint8_t *p, size_t n)
{
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
        table[i] = c;
    }
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ p[i]) & 0xff];
    return crc;
}

#if defined __x86_64__ && defined __GNUC__
__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t c = crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = __builtin_ia32_crc32di(c, word);
    }
    for (; n > 0; p++, n--)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p);
    return (uint32_t)c;
}
#endif

uint32_t stwi_crc32c(uint32_t crc, const void *p, size_t bytes)
{
#if defined __x86_64__ && defined __GNUC__
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_sse42(~crc, p, bytes);
#endif
    return ~crc_table(~crc, p, bytes);
}

uint32_t stw_crc32c(const void *p, size_t bytes)
{
    return stwi_crc32c(0, p, bytes);
}
