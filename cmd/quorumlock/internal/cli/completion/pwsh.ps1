# Completion of quorumlock for PowerShell. The words of the line are data here: nothing evaluates
# them.
Register-ArgumentCompleter -Native -CommandName quorumlock -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { $_.Extent.Text })
    if ($words.Count -eq 0 -or $words -contains '--') { return } # then PowerShell completes files
    $program = Get-Command -CommandType Application -TotalCount 1 -ErrorAction SilentlyContinue -Name $words[0]
    if (-not $program) { return }
    $arguments = @($words | Select-Object -Skip 1)
    if ($wordToComplete -like '-*') { $arguments += $wordToComplete }
    & $program @arguments '--generate-shell-completion' 2>$null | ForEach-Object {
        $token, $description = $_.Split(':', 2)
        if ($token -and $token.StartsWith($wordToComplete)) {
            $text = if ($description) { $description } else { $token }
            [System.Management.Automation.CompletionResult]::new($token, $token, 'ParameterValue', $text)
        }
    }
}
