/* stw_lowest.h: of the free blocks of one size, the one at the lowest address (stw_lowest.c). Not installed. */
#ifndef STW_LOWEST_H
#define STW_LOWEST_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define STW_LOWEST_MIN 2048u /* units, 1 MiB: no two free blocks of that size begin in the same one */
#define STW_LOWEST_END 16384u /* units, 8 MiB: neither these nor larger ones are here */

/* What begins in 32 MiB of the range, one after the other. */
typedef struct {
    uint64_t units[8];  /* 16 bits for each MiB: of the free block that begins in it; 0: none that belongs here */
    uint32_t block[32]; /* and that block, where there is one */
} stw_lowest_line;

typedef struct {
    stw_lowest_line *lines;
    uint64_t *tops;    /* for each size a bit for each word of its row that is not 0 */
    uint64_t *rows;    /* for each size a bit for each line that has it */
    uint32_t n_lines, row_words, top_words;
    uint64_t bytes;
} stw_lowest;

bool stwi_lowest_open(stw_lowest *l, uint64_t units); /* of the range; false: no memory, l is empty */
void stwi_lowest_close(stw_lowest *l);
/* A block of so many units that begins at start comes, or goes; what is known of it must be true. */
void stwi_lowest_insert(stw_lowest *l, uint32_t start, uint32_t units, uint32_t block);
/* Returns, where the lowest one goes, the one that is it now; 0: there is none, or another one went. */
uint32_t stwi_lowest_remove(stw_lowest *l, uint32_t start, uint32_t units, bool lowest);
/* Whether the block is in; whether n are, all below `end`, and the rows say where. */
bool stwi_lowest_has(const stw_lowest *l, uint32_t start, uint32_t units, uint32_t block);
bool stwi_lowest_check(const stw_lowest *l, uint32_t end, uint64_t n);

#pragma GCC visibility pop
#endif
