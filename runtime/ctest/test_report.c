/* test_report.c: the report and the page that explains it (REPORT.md): each line that is ever printed has a row there that says what
 * to do about it, and there is no row for a line that is not. A program on the double of the driver in which everything happens;
 * run it in the top folder, as make does.
 */
#include "cuda_scene.h"

#define PAGE "runtime/REPORT.md"
#define CODE "runtime/stw_report.c"

static bool slurp(const char *name, char *out, size_t room)
{
    FILE *f = fopen(name, "rb");
    size_t n = f ? fread(out, 1, room - 1, f) : 0;
    if (f)
        fclose(f);
    if (n == 0)
        printf("test_report: no %s: run it in the top folder\n", name);
    return n > 0 && n < room - 1;
}

/* Whether a line of the text begins with `before` and the word. */
static bool has(const char *text, const char *before, const char *word, size_t n)
{
    size_t b = strlen(before);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, before, b) == 0 && strncmp(line + b, word, n) == 0 && line[b + n] == ' ')
            return true;
    return false;
}

int main(void)
{
    static char page[20000], code[20000], report[4000];
    if (!gpu_load() || !CHECK(slurp(PAGE, page, sizeof page)) || !CHECK(slurp(CODE, code, sizeof code)))
        return 1;
    double_config d = small_device();
    start(&d);
    stw_backend b;
    stw_allocator *a;
    size_t n;
    tally t = {0};
    uint8_t *file = cuda_plan(true, &n);
    CHECK_EQ(open_with(&b, (stw_cuda_options){.primary = 1}), STW_OK);
    CHECK_EQ(stw_create(&a, file, n, &(stw_options){.heap_bytes = 16 << 20, .stitch_bytes = 2 << 20}, &b, message, sizeof message), STW_OK);
    free(file);
    run_program(a, &b, (uint64_t[2]){0, gpu->stream()}, true, 12, 7, &t);
    CHECK_EQ(stw_free(a, report), -1);
    stw_report(a, report, sizeof report);
    fputs(report, stdout);
    stw_stats s;
    stw_get_stats(a, &s);
    CHECK(s.moves > 0 && s.event_records > 0 && s.stitched > 0 && s.bad_free > 0); /* what has lines of its own */
    stw_destroy(a);
    stw_backend_cuda_close(&b);
    check_clean("report");

    int lines = 0, rows = 0, written = 0;
    for (const char *at = code; (at = strstr(at, "add(&t, ")) != NULL; at++)
        written++;
    for (const char *line = report; *line; line = strchr(line, '\n') + 1, lines++)
        if (!CHECK(has(page, "| ", line, strcspn(line, " "))))
            printf("  %s has no row for %.*s\n", PAGE, (int)strcspn(line, " "), line);
    for (const char *row = strstr(page, "\n|---"); row && (row = strchr(row + 1, '\n')) != NULL && row[1] == '|'; rows++) {
        const char *word = row + 3, *cell = word;
        if (!CHECK(has(report, "", word, strcspn(word, " "))))
            printf("  %s: the row %.*s is of no line\n", PAGE, (int)strcspn(word, " "), word);
        for (int i = 0; i < 2 && cell; i++)
            cell = strstr(cell, " | ") ? strstr(cell, " | ") + 3 : NULL;
        CHECK(cell && strcspn(cell, "|\n") > 10); /* what to do about it */
    }
    CHECK_EQ(lines, rows);
    CHECK_EQ(lines, written); /* there is no line for a case that this program does not reach */
    return check_end("test_report");
}
